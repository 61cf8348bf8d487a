//! Memory of results that are done with, for the next ones: a layer's results are as large as the last layer's, and what
//! is taken anew from the system must be found and zeroed first, by one thread while the others wait.

use std::cell::RefCell;
use std::sync::Arc;

use burn::backend::flex::FlexTensor;

/// Numbers of a result from which it is worth it.
const LARGE: usize = 256;
/// Vectors that wait to be used, at most: those of a layer, for rows of two counts in turns.
const MOST: usize = 12;

thread_local! {
    /// The engine's thread makes and drops all results. The newest comes last.
    static WAITING: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// So many numbers, whatever they are: to be written, not to be read.
pub(super) fn take(len: usize) -> Vec<f32> {
    let fits = |vector: &Vec<f32>| (len..=4 * len).contains(&vector.capacity());
    let taken = WAITING.with_borrow_mut(|waiting| {
        let fitting = waiting.iter().enumerate().filter(|(_, vector)| fits(vector));
        let (least, _) = fitting.min_by_key(|(_, vector)| vector.capacity())?;
        Some(waiting.remove(least))
    });
    let mut taken = taken.unwrap_or_default();
    taken.resize(len, 0.0);
    taken
}

/// Keeps what a tensor had, if it was the last to have it.
pub(super) fn give_back(x: FlexTensor) {
    let data = x.data_arc();
    drop(x);
    if data.len() < LARGE * size_of::<f32>() {
        return;
    }
    let Some(Ok(vector)) = Arc::try_unwrap(data).ok().map(|bytes| bytes.try_into_vec::<f32>()) else { return };
    WAITING.with_borrow_mut(|waiting| {
        if waiting.len() == MOST {
            waiting.remove(0);
        }
        waiting.push(vector);
    });
}

#[cfg(test)]
mod tests {
    use burn::backend::flex::Layout;
    use burn::tensor::{Bytes, DType, Shape};

    use super::*;

    fn tensor(values: Vec<f32>) -> FlexTensor {
        let shape = Shape::from([values.len() / 8, 8]);
        FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), DType::F32)
    }

    #[test]
    fn what_nobody_has_any_more_is_used_again() {
        let values = vec![1.5; LARGE];
        let at = values.as_ptr();
        let (one, other) = (tensor(values), tensor(vec![2.5; 2 * LARGE]));
        let held = one.clone();
        give_back(one);
        let fresh = take(LARGE);
        assert_ne!(fresh.as_ptr(), at, "somebody still reads it");
        give_back(held);
        give_back(other);
        let again = take(LARGE);
        assert_eq!((again.as_ptr(), again.len(), again[7]), (at, LARGE, 1.5));
        let fresh = take(LARGE);
        assert_ne!(fresh.as_ptr(), at, "given twice");
        let less = take(LARGE - 16);
        assert_eq!(less.len(), LARGE - 16);
        for _ in 0..3 * MOST {
            give_back(tensor(vec![0.0; LARGE]));
        }
        WAITING.with_borrow(|waiting| assert_eq!(waiting.len(), MOST));
    }
}
