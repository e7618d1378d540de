//! Integers beyond 2^53, which JSONata's floats cannot hold: what they were is
//! kept beside the evaluation, and put back if they come out as they went in.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Number;

/// The integers that lost something on their way into floats, by what became
/// of them; `None` where two became the same. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct ExactIntegers(Rc<RefCell<HashMap<u64, Option<Number>>>>);

impl ExactIntegers {
    /// The float for a number.
    pub(super) fn float(&self, number: &Number) -> f64 {
        let float = number.as_f64().unwrap_or(f64::NAN);
        // Below 2^53 every integer has a float of its own.
        if !number.is_f64() && float.abs() >= 9_007_199_254_740_992.0 {
            self.0
                .borrow_mut()
                .entry(float.to_bits())
                .and_modify(|known| {
                    if known.as_ref() != Some(number) {
                        *known = None;
                    }
                })
                .or_insert_with(|| Some(number.clone()));
        }
        float
    }

    /// The number for a float; `None` for what JSON cannot say.
    pub(super) fn number(&self, float: f64) -> Option<Number> {
        if let Some(Some(number)) = self.0.borrow().get(&float.to_bits()) {
            return Some(number.clone());
        }
        crate::data::number::from_f64(float)
    }
}
