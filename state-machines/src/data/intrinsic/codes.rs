//! `Base64Encode`, `Base64Decode`, `Hash`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::Digest;

use super::{expect_text, intrinsic_fault};
use crate::data::EvaluationFault;

/// The maximum length of a text to encode, decode or hash.
const CHARS_MAX: usize = 10_000;

fn short_text<'v>(function: &str, value: &'v Value) -> Result<&'v str, EvaluationFault> {
    let text = expect_text(function, value)?;
    if text.chars().count() > CHARS_MAX {
        return Err(intrinsic_fault(format!(
            "{function} takes at most {CHARS_MAX} characters"
        )));
    }
    Ok(text)
}

pub(super) fn base64_encode(text: &Value) -> Result<Value, EvaluationFault> {
    let text = short_text("States.Base64Encode", text)?;
    Ok(Value::String(STANDARD.encode(text)))
}

pub(super) fn base64_decode(text: &Value) -> Result<Value, EvaluationFault> {
    let text = short_text("States.Base64Decode", text)?;
    let bytes = STANDARD.decode(text).map_err(|error| {
        intrinsic_fault(format!("States.Base64Decode needs valid Base64: {error}"))
    })?;
    String::from_utf8(bytes)
        .map(Value::String)
        .map_err(|_| intrinsic_fault("States.Base64Decode: the decoded bytes are not UTF-8"))
}

/// The hash of a text, in hexadecimal.
pub(in crate::data) fn hash(data: &Value, algorithm: &Value) -> Result<Value, EvaluationFault> {
    let data = short_text("a hash", data)?.as_bytes();
    let digest = match expect_text("a hash", algorithm)? {
        "MD5" => md5::Md5::digest(data).to_vec(),
        "SHA-1" => sha1::Sha1::digest(data).to_vec(),
        "SHA-256" => sha2::Sha256::digest(data).to_vec(),
        "SHA-384" => sha2::Sha384::digest(data).to_vec(),
        "SHA-512" => sha2::Sha512::digest(data).to_vec(),
        other => {
            return Err(intrinsic_fault(format!(
                "unknown hash '{other}'; use MD5, SHA-1, SHA-256, SHA-384 or SHA-512"
            )));
        }
    };
    let text = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Value::String(text))
}
