//! Parses calls.

use serde_json::Value;

use super::texts::{self, FormatPiece};
use super::{CallArgument, FUNCTIONS, IntrinsicCall, IntrinsicFunction};
use crate::data::SyntaxError;
use crate::data::cursor::Cursor;
use crate::data::path::Path;

/// The maximum nesting of calls, as documented by AWS.
const DEPTH_MAX: usize = 10;

/// The maximum length of a call, as on AWS.
const CHARS_MAX: usize = 10_000;

pub(super) fn parse_call(text: &str) -> Result<IntrinsicCall, SyntaxError> {
    if text.chars().count() > CHARS_MAX {
        return Err(SyntaxError::new(format!(
            "a call has at most {CHARS_MAX} characters"
        )));
    }
    let mut cursor = Cursor::new(text.trim());
    let call = read_call(&mut cursor, 1)?;
    if !cursor.at_end() {
        return Err(cursor.unexpected("the end of the call"));
    }
    Ok(call)
}

fn read_call(cursor: &mut Cursor<'_>, depth: usize) -> Result<IntrinsicCall, SyntaxError> {
    if depth > DEPTH_MAX {
        return Err(cursor.unexpected(&format!("no call more than {DEPTH_MAX} levels deep")));
    }
    let before = cursor.clone();
    if !cursor.eat("States.") {
        return Err(
            cursor.unexpected("a path, which begins with '$', or a call such as States.Format(…)")
        );
    }
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric());
    let Some((_, function, least, most)) = FUNCTIONS.iter().find(|known| known.0 == name) else {
        return Err(unknown_function(name));
    };
    cursor.skip_blanks();
    cursor.expect("(")?;
    let mut arguments = Vec::new();
    cursor.skip_blanks();
    while !cursor.eat(")") {
        if !arguments.is_empty() {
            cursor.expect(",")?;
            cursor.skip_blanks();
        }
        let first_of_format = *function == IntrinsicFunction::Format && arguments.is_empty();
        arguments.push(read_argument(cursor, depth, first_of_format)?);
        cursor.skip_blanks();
    }
    if !(*least..=*most).contains(&arguments.len()) {
        let wanted = match (*least, *most) {
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => format!("{least}"),
            (least, most) => format!("{least} to {most}"),
        };
        return Err(before.unexpected(&format!(
            "a call of States.{name} with {wanted} arguments instead of {}",
            arguments.len()
        )));
    }
    Ok(IntrinsicCall {
        function: *function,
        arguments,
    })
}

fn unknown_function(name: &str) -> SyntaxError {
    let nearest = FUNCTIONS
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known.0, name), known.0))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    let hint = match nearest {
        Some((_, known)) => format!("; did you mean States.{known}?"),
        None => String::new(),
    };
    SyntaxError::new(format!("there is no function States.{name}{hint}"))
}

fn read_argument(
    cursor: &mut Cursor<'_>,
    depth: usize,
    first_of_format: bool,
) -> Result<CallArgument, SyntaxError> {
    Ok(match cursor.peek() {
        Some('$') => CallArgument::Path(Path::read_from(cursor)?),
        Some('\'') => {
            let raw = cursor.quoted('\'')?;
            let pieces = texts::split_pieces(raw);
            if first_of_format {
                CallArgument::Format(pieces)
            } else {
                CallArgument::Literal(Value::String(literal_text(&pieces)))
            }
        }
        Some('S') => CallArgument::Call(read_call(cursor, depth + 1)?),
        Some('-' | '0'..='9') => CallArgument::Literal(Value::Number(cursor.number()?)),
        _ if cursor.eat("true") => CallArgument::Literal(Value::Bool(true)),
        _ if cursor.eat("false") => CallArgument::Literal(Value::Bool(false)),
        _ if cursor.eat("null") => CallArgument::Literal(Value::Null),
        _ => {
            return Err(cursor.unexpected(
                "a string in single quotes, a number, true, false, null, a path or a call",
            ));
        }
    })
}

/// The text of a literal outside of `States.Format`.
fn literal_text(pieces: &[FormatPiece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            FormatPiece::Text(text) => text.as_str(),
            FormatPiece::Gap => "{}",
        })
        .collect()
}
