//! The grammar of paths, as Jayway's JsonPath has it: AWS reads paths with it,
//! and it takes more than RFC 9535 does (`$.a-b`, `$.list.[0]`, `[?(…)]`).

use super::filter::Filter;
use super::query::{Function, Query, Root, Slice, Step};
use crate::data::Unreadable;
use crate::data::cursor::Cursor;

/// The longest path that is read: beyond it nobody wrote it by hand.
const STEPS_MAX: usize = 256;

/// Reads the path that begins here, and stops behind it.
pub(super) fn query(cursor: &mut Cursor<'_>, depth: usize) -> Result<Query, Unreadable> {
    let root = root(cursor)?;
    let mut steps = Vec::new();
    while step(cursor, &mut steps, depth)? {
        if steps.len() > STEPS_MAX {
            return Err(Unreadable::new(format!(
                "a path has at most {STEPS_MAX} steps"
            )));
        }
        if matches!(steps.last(), Some(Step::Apply(_))) {
            break;
        }
    }
    Ok(Query { root, steps })
}

fn root(cursor: &mut Cursor<'_>) -> Result<Root, Unreadable> {
    if cursor.eat("@") {
        return Ok(Root::Current);
    }
    if cursor.eat("$$") {
        return Ok(Root::Context);
    }
    if !cursor.eat("$") {
        return Err(cursor.unexpected("a path, which begins with '$'"));
    }
    if !cursor.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
        return Ok(Root::Input);
    }
    let name = cursor.take_while(|c| c.is_alphanumeric() || c == '_');
    Ok(Root::Variable(name.to_owned()))
}

/// Reads one step, or two where `..` leads to another; says whether there was one.
fn step(cursor: &mut Cursor<'_>, steps: &mut Vec<Step>, depth: usize) -> Result<bool, Unreadable> {
    if cursor.eat("..") {
        steps.push(Step::Deep);
        if cursor.peek() == Some('[') {
            steps.push(bracket(cursor, depth)?);
        } else {
            steps.push(dotted(cursor)?);
        }
        return Ok(true);
    }
    if cursor.eat(".") {
        // `.['name']` and `.[0]` are written by many, and taken.
        if cursor.peek() == Some('[') {
            steps.push(bracket(cursor, depth)?);
        } else {
            steps.push(dotted(cursor)?);
        }
        return Ok(true);
    }
    if cursor.peek() == Some('[') {
        steps.push(bracket(cursor, depth)?);
        return Ok(true);
    }
    Ok(false)
}

/// What may stand in a name after a dot: all but what ends it here, in a
/// filter or among the arguments of a call.
fn is_name(c: char) -> bool {
    !c.is_whitespace()
        && !matches!(
            c,
            '.' | '['
                | ']'
                | '('
                | ')'
                | ','
                | '='
                | '<'
                | '>'
                | '!'
                | '&'
                | '|'
                | '\''
                | '"'
                | '~'
        )
}

fn dotted(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    let before = cursor.clone();
    let name = cursor.take_while(is_name);
    if cursor.eat("()") {
        return Function::named(name)
            .map(Step::Apply)
            .ok_or_else(|| Unreadable::new(format!("paths have no function '{name}()'")));
    }
    match name {
        "" => {
            Err(before
                .unexpected("a name (in brackets and quotes if it has blanks or signs in it)"))
        }
        "*" => Ok(Step::Any),
        name => Ok(Step::Name(name.to_owned())),
    }
}

fn bracket(cursor: &mut Cursor<'_>, depth: usize) -> Result<Step, Unreadable> {
    cursor.expect("[")?;
    cursor.skip_blanks();
    let step = match cursor.peek() {
        Some('*') => {
            cursor.eat("*");
            Step::Any
        }
        Some('?') => {
            cursor.eat("?");
            Step::Filter(Filter::read(cursor, depth)?)
        }
        Some('\'' | '"') => names(cursor)?,
        Some('(') => from_the_end(cursor)?,
        _ => numbers(cursor)?,
    };
    cursor.skip_blanks();
    cursor.expect("]")?;
    Ok(step)
}

/// `(@.length-1)`, the one script of the first JSONPath that lives on: `-1`.
fn from_the_end(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    cursor.expect("(@.length")?;
    cursor.eat("()");
    cursor.skip_blanks();
    cursor.expect("-")?;
    cursor.skip_blanks();
    let before = cursor.clone();
    let back = cursor.integer()?;
    cursor.expect(")")?;
    if back < 1 {
        return Err(before.unexpected("1 or more"));
    }
    Ok(Step::Index(-back))
}

fn names(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    let mut names = Vec::new();
    loop {
        cursor.skip_blanks();
        let quote = match cursor.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(cursor.unexpected("a name in quotes")),
        };
        names.push(unescaped(cursor.quoted(quote)?, quote)?);
        cursor.skip_blanks();
        if !cursor.eat(",") {
            break;
        }
    }
    Ok(match names.pop() {
        Some(name) if names.is_empty() => Step::Name(name),
        last => {
            names.extend(last);
            Step::Names(names)
        }
    })
}

/// A text in quotes without its escapes: `\\`, `\uXXXX` and the quote itself.
/// Any other backslash stands for itself, as AWS has it: `'a\"b'` is four
/// characters and means the name with the backslash.
pub(super) fn unescaped(raw: &str, quote: char) -> Result<String, Unreadable> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = Cursor::new(raw);
    while let Some(c) = rest.take() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.peek() {
            Some(next) if next == quote || next == '\\' => {
                rest.take();
                text.push(next);
            }
            Some('u') => text.push(unicode_escape(&mut rest)?),
            _ => text.push('\\'),
        }
    }
    Ok(text)
}

fn unicode_escape(rest: &mut Cursor<'_>) -> Result<char, Unreadable> {
    let before = rest.clone();
    let unit = code_unit(rest)?;
    let paired = if (0xD800..0xDC00).contains(&unit) && rest.eat("\\") {
        let low = code_unit(rest)?;
        char::decode_utf16([unit, low]).next()
    } else {
        char::decode_utf16([unit]).next()
    };
    match paired {
        Some(Ok(c)) => Ok(c),
        _ => Err(before.unexpected("the escape of a whole character")),
    }
}

fn code_unit(rest: &mut Cursor<'_>) -> Result<u16, Unreadable> {
    let before = rest.clone();
    rest.expect("u")?;
    let digits = rest.rest().get(..4).unwrap_or_default();
    rest.eat(digits);
    u16::from_str_radix(digits, 16)
        .map_err(|_| before.unexpected("\\u and four hexadecimal digits"))
}

/// `3`, `0, 2` or a slice.
fn numbers(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    let first = bound(cursor)?;
    if cursor.peek() == Some(':') {
        return slice(cursor, first);
    }
    let Some(first) = first else {
        return Err(cursor.unexpected("an index, a slice, '*', a filter or a name in quotes"));
    };
    let mut indexes = vec![first];
    while cursor.eat(",") {
        cursor.skip_blanks();
        indexes.push(cursor.integer()?);
        cursor.skip_blanks();
    }
    Ok(if indexes.len() == 1 {
        Step::Index(first)
    } else {
        Step::Indexes(indexes)
    })
}

fn slice(cursor: &mut Cursor<'_>, from: Option<i64>) -> Result<Step, Unreadable> {
    cursor.expect(":")?;
    let to = bound(cursor)?;
    let mut step = 1;
    if cursor.eat(":") {
        let before = cursor.clone();
        step = match bound(cursor)? {
            None => 1,
            Some(step) => usize::try_from(step)
                .ok()
                .filter(|step| *step > 0)
                .ok_or_else(|| before.unexpected("a step of 1 or more"))?,
        };
    }
    Ok(Step::Slice(Slice { from, to, step }))
}

/// An integer, if there is one.
fn bound(cursor: &mut Cursor<'_>) -> Result<Option<i64>, Unreadable> {
    cursor.skip_blanks();
    let bound = match cursor.peek() {
        Some('-' | '0'..='9') => Some(cursor.integer()?),
        _ => None,
    };
    cursor.skip_blanks();
    Ok(bound)
}
