//! The grammar of calls.

use serde_json::Value;

use super::texts::{self, Piece};
use super::{Argument, Call, FUNCTIONS, Function};
use crate::data::Unreadable;
use crate::data::cursor::Cursor;
use crate::data::path::Path;

/// How deep calls may nest; AWS documents ten.
const DEPTH_MAX: usize = 10;

/// The longest call, as AWS has it.
const CHARS_MAX: usize = 10_000;

pub(super) fn call(text: &str) -> Result<Call, Unreadable> {
    if text.chars().count() > CHARS_MAX {
        return Err(Unreadable::new(format!(
            "a call has at most {CHARS_MAX} characters"
        )));
    }
    let mut cursor = Cursor::new(text.trim());
    let call = read(&mut cursor, 1)?;
    if !cursor.at_end() {
        return Err(cursor.unexpected("the end of the call"));
    }
    Ok(call)
}

fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Call, Unreadable> {
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
        return Err(unknown(name));
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
        let first_of_format = *function == Function::Format && arguments.is_empty();
        arguments.push(argument(cursor, depth, first_of_format)?);
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
    Ok(Call {
        function: *function,
        arguments,
    })
}

fn unknown(name: &str) -> Unreadable {
    let nearest = FUNCTIONS
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known.0, name), known.0))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    let hint = match nearest {
        Some((_, known)) => format!("; did you mean States.{known}?"),
        None => String::new(),
    };
    Unreadable::new(format!("there is no function States.{name}{hint}"))
}

fn argument(
    cursor: &mut Cursor<'_>,
    depth: usize,
    first_of_format: bool,
) -> Result<Argument, Unreadable> {
    Ok(match cursor.peek() {
        Some('$') => Argument::Path(Path::read_from(cursor)?),
        Some('\'') => {
            let raw = cursor.quoted('\'')?;
            let pieces = texts::pieces(raw);
            if first_of_format {
                Argument::Format(pieces)
            } else {
                Argument::Literal(Value::String(literal(&pieces)))
            }
        }
        Some('S') => Argument::Call(read(cursor, depth + 1)?),
        Some('-' | '0'..='9') => Argument::Literal(Value::Number(cursor.number()?)),
        _ if cursor.eat("true") => Argument::Literal(Value::Bool(true)),
        _ if cursor.eat("false") => Argument::Literal(Value::Bool(false)),
        _ if cursor.eat("null") => Argument::Literal(Value::Null),
        _ => {
            return Err(cursor.unexpected(
                "a text in single quotes, a number, true, false, null, a path or a call",
            ));
        }
    })
}

/// The text of a literal where gaps have no meaning.
fn literal(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Gap => "{}",
        })
        .collect()
}
