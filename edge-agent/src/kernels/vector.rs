//! What a processor must be able to do for the products: a few operations on vectors that hold one number, or four
//! bytes, of each of eight interleaved rows. `product` is written once over them.
#![allow(unsafe_code, reason = "declares what is unsafe; see each implementation")]

/// Vectors over `GROUPS` groups of eight rows. Where it has two, the second group's weights stand `stride` bytes behind
/// the first's.
///
/// # Safety
/// All functions may only be called where the processor has the implementation's instructions, from a function that is
/// compiled for them. Pointers must be good for what is read or written there, of each group.
pub(super) trait Vector {
    /// One number of each row.
    type Floats: Copy;
    /// Four bytes of each row.
    type Bytes: Copy;

    /// Groups that one vector covers.
    const GROUPS: usize;
    /// Whether [`Vector::dot`] takes eight-bit weights as they are (signed) or as unsigned numbers, 128 more.
    const SIGNED: bool;

    unsafe fn zero() -> Self::Floats;
    unsafe fn splat(value: f32) -> Self::Floats;
    unsafe fn load(at: *const f32) -> Self::Floats;
    unsafe fn store(at: *mut f32, value: Self::Floats);
    unsafe fn multiply(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn subtract(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`.
    unsafe fn multiply_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;

    /// Eight weights of 32 bits a group.
    unsafe fn singles(at: *const u8, stride: usize) -> Self::Floats;
    /// Eight weights of 16 bits a group.
    unsafe fn halves(at: *const u8, stride: usize) -> Self::Floats;
    /// Eight weights of 16 bits a group, in bfloat16.
    unsafe fn brains(at: *const u8, stride: usize) -> Self::Floats;
    /// 32 bytes a group.
    unsafe fn bytes(at: *const u8, stride: usize) -> Self::Bytes;

    unsafe fn and(a: Self::Bytes, mask: u8) -> Self::Bytes;
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bytes with their highest bit turned: signed numbers as unsigned ones, 128 more.
    unsafe fn turn(a: Self::Bytes) -> Self::Bytes;
    /// Shifts each byte left; the caller masked away what would leave it.
    unsafe fn left(a: Self::Bytes, by: i32) -> Self::Bytes;
    /// Shifts each byte right; what enters from a neighbour is masked away by the caller.
    unsafe fn right(a: Self::Bytes, by: i32) -> Self::Bytes;
    /// The `index`-th of each row's four bytes, unsigned.
    unsafe fn unsigned(a: Self::Bytes, index: i32) -> Self::Floats;
    /// Likewise, signed.
    unsafe fn signed(a: Self::Bytes, index: i32) -> Self::Floats;

    /// `4 * N` columns of weights of `bits` bits (4, 5, 6 unsigned; 8: see [`Vector::SIGNED`]) times as many activations.
    unsafe fn dot<const N: usize>(weights: &[Self::Bytes; N], x: *const i8, bits: u32) -> Self::Floats;

    /// Brings the line at this address near, of each group; any address is good.
    #[inline(always)]
    unsafe fn prefetch(at: *const u8, stride: usize) {
        let _ = (at, stride);
    }
}
