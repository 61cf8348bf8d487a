//! One file: header, metadata, and where each tensor lies.
#![allow(unsafe_code, reason = "the memory map, below, with its argument")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::reader::Reader;
use super::value::read_value;
use super::{GgmlType, GgufError, Metadata};

/// Bytes of a tensor's entry at least: name, dimensions, type, offset.
const MIN_TENSOR_ENTRY: u64 = 8 + 4 + 8 + 4 + 8;
/// Bytes of a key's entry at least: name, type, value.
const MIN_KEY_ENTRY: u64 = 8 + 4 + 1;

/// An open file whose header has been checked against its size.
pub struct Gguf {
    bytes: Arc<Bytes>,
    metadata: Metadata,
    tensors: HashMap<String, Place>,
}

/// Where the bytes are.
enum Bytes {
    Map(memmap2::Mmap),
    Memory(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Memory(vec) => vec,
        }
    }
}

struct Place {
    shape: Vec<usize>,
    kind: GgmlType,
    start: usize,
    end: usize,
}

/// One tensor: its bytes and what they mean.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Numbers in each dimension, the fastest first (a matrix is `[columns, rows]`).
    pub shape: &'a [usize],
    /// How they are stored.
    pub kind: GgmlType,
    /// As stored.
    pub bytes: &'a [u8],
}

impl Gguf {
    /// Maps a file and checks its header.
    ///
    /// # Errors
    /// [`GgufError`], naming what does not fit.
    pub fn open(path: &Path) -> Result<Gguf, GgufError> {
        let wrap = |source| GgufError::Open { path: path.display().to_string(), source };
        let file = std::fs::File::open(path).map_err(wrap)?;
        // SAFETY: a map is only sound while nobody changes the file under it. Models are written to a temporary name and
        // renamed into place, and never opened for writing again; replacing one makes a new file and leaves this one
        // as it is. Whoever overwrites a model in place while it is served gets what they would get from any program
        // that maps it (at worst SIGBUS, which ends the process).
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(wrap)?;
        Gguf::read(Bytes::Map(map))
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// [`GgufError`], naming what does not fit.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        Gguf::read(Bytes::Memory(bytes))
    }

    fn read(bytes: Bytes) -> Result<Gguf, GgufError> {
        let (metadata, tensors) = read_header(bytes.get())?;
        Ok(Gguf { bytes: Arc::new(bytes), metadata, tensors })
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// A tensor that must be there.
    ///
    /// # Errors
    /// When the file has none of that name.
    pub fn tensor<'a>(&'a self, name: &str) -> Result<Tensor<'a>, GgufError> {
        self.find(name).ok_or_else(|| GgufError::tensor(name, "is missing; the file is of another architecture"))
    }

    /// A tensor that may be missing.
    pub fn find<'a>(&'a self, name: &str) -> Option<Tensor<'a>> {
        let (name, place) = self.tensors.get_key_value(name)?;
        Some(self.at(name, place))
    }

    /// Every tensor, in no order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.tensors.iter().map(|(name, place)| self.at(name, place))
    }

    /// A tensor of exactly this shape.
    ///
    /// # Errors
    /// When it is missing or of another shape.
    pub fn shaped<'a>(&'a self, name: &str, shape: &[usize]) -> Result<Tensor<'a>, GgufError> {
        let tensor = self.tensor(name)?;
        if tensor.shape == shape {
            return Ok(tensor);
        }
        Err(GgufError::tensor(name, format!("has shape {:?}; the metadata asks for {shape:?}", tensor.shape)))
    }

    /// Lets go of the mapped pages that were read: what was copied out of them need not stay in memory twice.
    pub fn forget_pages(&self) {
        if let Bytes::Map(map) = self.bytes.as_ref() {
            // SAFETY: DontNeed on a private read-only file map only drops clean pages; they are read again if touched.
            let advised = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
            if let Err(error) = advised {
                tracing::debug!(%error, "the kernel keeps the model file's pages");
            }
        }
    }

    fn at<'a>(&'a self, name: &'a str, place: &'a Place) -> Tensor<'a> {
        Tensor { name, shape: &place.shape, kind: place.kind, bytes: &self.bytes.get()[place.start..place.end] }
    }
}

fn read_header(bytes: &[u8]) -> Result<(Metadata, HashMap<String, Place>), GgufError> {
    let mut reader = Reader::new(bytes);
    if bytes.get(..4) != Some(b"GGUF") {
        return Err(GgufError::Magic);
    }
    reader.bytes(4, "the header")?;
    let version = reader.u32("the header")?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version(version));
    }
    let tensor_count = reader.u64("the header")?;
    let key_count = reader.u64("the header")?;

    let mut metadata = Metadata::default();
    for index in 0..reader.room_for(key_count, MIN_KEY_ENTRY, "the metadata")? {
        let key = reader.name(&format!("metadata key {index}"))?;
        let value = read_value(&mut reader, &key)?;
        metadata.insert(key, value)?;
    }
    if let Some(parts @ 2..) = metadata.optional_u32("split.count")? {
        let problem =
            format!("the model is in {parts} files, of which this is one; join them (llama-gguf-split --merge)");
        return Err(GgufError::key("split.count", problem));
    }
    let entries = read_entries(&mut reader, tensor_count)?;

    let alignment = metadata.optional_u32("general.alignment")?.unwrap_or(32) as usize;
    if !alignment.is_power_of_two() {
        return Err(GgufError::key("general.alignment", format!("{alignment} is not a power of two")));
    }
    let data = reader.position().next_multiple_of(alignment);
    let mut tensors = HashMap::with_capacity(entries.len());
    for Entry { name, shape, kind, offset } in entries {
        let place = locate(&name, &shape, kind, offset, data, alignment, bytes.len())?;
        if tensors.contains_key(&name) {
            return Err(GgufError::tensor(name, "is there twice"));
        }
        tensors.insert(name, place);
    }
    apart(&tensors)?;
    Ok((metadata, tensors))
}

/// Whether no two tensors have the same bytes: a wrong offset makes a model of noise.
fn apart(tensors: &HashMap<String, Place>) -> Result<(), GgufError> {
    let mut places: Vec<(usize, usize, &str)> =
        tensors.iter().map(|(name, p)| (p.start, p.end, name.as_str())).collect();
    places.sort_unstable();
    match places.windows(2).find(|two| two[1].0 < two[0].1) {
        None => Ok(()),
        Some(two) => Err(GgufError::tensor(two[1].2, format!("begins inside the bytes of `{}`", two[0].2))),
    }
}

struct Entry {
    name: String,
    shape: Vec<usize>,
    kind: GgmlType,
    offset: u64,
}

fn read_entries(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Entry>, GgufError> {
    let count = reader.room_for(count, MIN_TENSOR_ENTRY, "the list of tensors")?;
    let mut entries = Vec::with_capacity(count);
    for index in 0..count {
        let name = reader.name(&format!("tensor {index}"))?;
        let dimensions = reader.u32(&name)?;
        if !(1..=4).contains(&dimensions) {
            return Err(GgufError::tensor(name, format!("has {dimensions} dimensions; 1 to 4 are known")));
        }
        let mut shape = Vec::with_capacity(4);
        for _ in 0..dimensions {
            let size = reader.u64(&name)?;
            match usize::try_from(size) {
                Ok(size) if size > 0 => shape.push(size),
                _ => return Err(GgufError::tensor(name, format!("a dimension of {size} makes no sense"))),
            }
        }
        let id = reader.u32(&name)?;
        let Some(kind) = GgmlType::from_id(id) else {
            let known = GgmlType::ALL.map(|t| t.to_string()).join(", ");
            return Err(GgufError::tensor(name, format!("type {id} is not supported; these are: {known}")));
        };
        let offset = reader.u64(&name)?;
        entries.push(Entry { name, shape, kind, offset });
    }
    Ok(entries)
}

fn locate(
    name: &str,
    shape: &[usize],
    kind: GgmlType,
    offset: u64,
    data: usize,
    alignment: usize,
    file: usize,
) -> Result<Place, GgufError> {
    if !shape[0].is_multiple_of(kind.block_len()) {
        let problem = format!("rows of {} cannot be {kind}, whose blocks have {}", shape[0], kind.block_len());
        return Err(GgufError::tensor(name, problem));
    }
    let size = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).and_then(|n| {
        // Whole blocks: the check above.
        (n / kind.block_len()).checked_mul(kind.block_bytes())
    });
    let Some(size) = size else {
        return Err(GgufError::tensor(name, format!("its shape {shape:?} overflows")));
    };
    if !offset.is_multiple_of(alignment as u64) {
        return Err(GgufError::tensor(name, format!("its offset {offset} is not a multiple of {alignment}")));
    }
    let start = usize::try_from(offset).ok().and_then(|o| o.checked_add(data));
    let end = start.and_then(|s| s.checked_add(size));
    match (start, end) {
        (Some(start), Some(end)) if end <= file => Ok(Place { shape: shape.to_vec(), kind, start, end }),
        _ => Err(GgufError::Truncated {
            place: format!("tensor `{name}`"),
            need: size as u64,
            have: (file as u64).saturating_sub((data as u64).saturating_add(offset)),
        }),
    }
}
