//! Integers beyond 2^53, which JSONata's floats cannot represent: the original integers
//! are remembered during an evaluation, and restored if they come out unchanged.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Number;

/// The integers that lost precision as floats, by float; `None` if two integers have
/// the same float. Clones share the table.
#[derive(Debug, Clone, Default)]
pub(super) struct ExactIntegers(Rc<RefCell<HashMap<u64, Option<Number>>>>);

impl ExactIntegers {
    /// Converts a number to a float.
    pub(super) fn float(&self, number: &Number) -> f64 {
        let float = number.as_f64().unwrap_or(f64::NAN);
        // Below 2^53 floats represent every integer exactly.
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

    /// Converts a float back to a number; `None` for NaN and infinities.
    pub(super) fn number(&self, float: f64) -> Option<Number> {
        if let Some(Some(number)) = self.0.borrow().get(&float.to_bits()) {
            return Some(number.clone());
        }
        crate::data::number::from_f64(float)
    }
}
