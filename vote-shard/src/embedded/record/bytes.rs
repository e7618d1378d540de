//! Encodes numbers, texts and times as bytes.

use ballast_domain::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RecordError;

pub(in crate::embedded) struct RecordWriter<'a>(pub(in crate::embedded) &'a mut Vec<u8>);

impl RecordWriter<'_> {
    pub(in crate::embedded) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(in crate::embedded) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(in crate::embedded) fn fixed(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A number relative to another; small differences are short.
    pub(in crate::embedded) fn difference(&mut self, number: i64, from: i64) {
        let distance = number.wrapping_sub(from);
        self.number(((distance << 1) ^ (distance >> 63)) as u64);
    }

    pub(in crate::embedded) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(in crate::embedded) fn json(&mut self, value: &impl Serialize) {
        // Only our own types: these always serialise.
        let json = serde_json::to_string(value).unwrap_or_default();
        self.text(&json);
    }
}

pub(in crate::embedded) struct RecordReader<'a>(pub(in crate::embedded) &'a [u8]);

impl<'a> RecordReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| RecordError("unexpected end of the record".to_owned()))?;
        self.0 = rest;
        Ok(head)
    }

    pub(in crate::embedded) fn byte(&mut self) -> Result<u8, RecordError> {
        Ok(self.take(1)?[0])
    }

    pub(in crate::embedded) fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordError("number too long".to_owned()))
    }

    pub(in crate::embedded) fn number_u32(&mut self) -> Result<u32, RecordError> {
        narrow(self.number()?)
    }

    pub(in crate::embedded) fn number_u16(&mut self) -> Result<u16, RecordError> {
        narrow(self.number()?)
    }

    pub(in crate::embedded) fn fixed(&mut self) -> Result<u64, RecordError> {
        let mut eight = [0; 8];
        eight.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(eight))
    }

    pub(in crate::embedded) fn time(&mut self, from: Timestamp) -> Result<Timestamp, RecordError> {
        let folded = self.number()?;
        let distance = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        let ms = from.unix_ms().wrapping_add(distance);
        Ok(Timestamp::from_unix_ms(ms))
    }

    pub(in crate::embedded) fn text(&mut self) -> Result<&'a str, RecordError> {
        let count: usize = narrow(self.number()?)?;
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes).map_err(|_| RecordError("text is not UTF-8".to_owned()))
    }

    pub(in crate::embedded) fn json<T: DeserializeOwned>(&mut self) -> Result<T, RecordError> {
        serde_json::from_str(self.text()?).map_err(|error| RecordError(error.to_string()))
    }
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T, RecordError> {
    T::try_from(number).map_err(|_| RecordError("number too large".to_owned()))
}
