//! Parses paths with the grammar of Jayway JsonPath, which AWS uses. It accepts more
//! than RFC 9535 (`$.a-b`, `$.list.[0]`, `[?(…)]`).

use super::filter::Filter;
use super::query::{PathFunction, PathQuery, PathRoot, QueryStep, SliceBounds};
use crate::data::SyntaxError;
use crate::data::cursor::Cursor;

/// The maximum number of steps of a path.
const STEPS_MAX: usize = 256;

/// Parses the path at the cursor, and stops after it.
pub(super) fn parse_query(cursor: &mut Cursor<'_>, depth: usize) -> Result<PathQuery, SyntaxError> {
    let root = parse_root(cursor)?;
    let mut steps = Vec::new();
    while parse_step(cursor, &mut steps, depth)? {
        if steps.len() > STEPS_MAX {
            return Err(SyntaxError::new(format!(
                "a path has at most {STEPS_MAX} steps"
            )));
        }
        if matches!(steps.last(), Some(QueryStep::Apply(_))) {
            break;
        }
    }
    Ok(PathQuery { root, steps })
}

fn parse_root(cursor: &mut Cursor<'_>) -> Result<PathRoot, SyntaxError> {
    if cursor.eat("@") {
        return Ok(PathRoot::Current);
    }
    if cursor.eat("$$") {
        return Ok(PathRoot::Context);
    }
    if !cursor.eat("$") {
        return Err(cursor.unexpected("a path, which begins with '$'"));
    }
    if !cursor.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
        return Ok(PathRoot::Input);
    }
    let name = cursor.take_while(|c| c.is_alphanumeric() || c == '_');
    Ok(PathRoot::Variable(name.to_owned()))
}

/// Parses one step, or two if it is `..` and its successor. Returns whether there was
/// one.
fn parse_step(
    cursor: &mut Cursor<'_>,
    steps: &mut Vec<QueryStep>,
    depth: usize,
) -> Result<bool, SyntaxError> {
    if cursor.eat("..") {
        steps.push(QueryStep::Deep);
        if cursor.peek() == Some('[') {
            steps.push(parse_bracket(cursor, depth)?);
        } else {
            steps.push(parse_dotted(cursor)?);
        }
        return Ok(true);
    }
    if cursor.eat(".") {
        // Many authors write `.['name']` and `.[0]`; accept them.
        if cursor.peek() == Some('[') {
            steps.push(parse_bracket(cursor, depth)?);
        } else {
            steps.push(parse_dotted(cursor)?);
        }
        return Ok(true);
    }
    if cursor.peek() == Some('[') {
        steps.push(parse_bracket(cursor, depth)?);
        return Ok(true);
    }
    Ok(false)
}

/// The characters of a name after a dot: all except those that end it in a path, a
/// filter or the arguments of a call.
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

fn parse_dotted(cursor: &mut Cursor<'_>) -> Result<QueryStep, SyntaxError> {
    let before = cursor.clone();
    let name = cursor.take_while(is_name);
    if cursor.eat("()") {
        return PathFunction::from_name(name)
            .map(QueryStep::Apply)
            .ok_or_else(|| SyntaxError::new(format!("unknown path function '{name}()'")));
    }
    match name {
        "" => {
            Err(before
                .unexpected("a name (use brackets and quotes for blanks and special characters)"))
        }
        "*" => Ok(QueryStep::Any),
        name => Ok(QueryStep::Name(name.to_owned())),
    }
}

fn parse_bracket(cursor: &mut Cursor<'_>, depth: usize) -> Result<QueryStep, SyntaxError> {
    cursor.expect("[")?;
    cursor.skip_blanks();
    let step = match cursor.peek() {
        Some('*') => {
            cursor.eat("*");
            QueryStep::Any
        }
        Some('?') => {
            cursor.eat("?");
            QueryStep::Filter(Filter::read(cursor, depth)?)
        }
        Some('\'' | '"') => parse_names(cursor)?,
        Some('(') => parse_length_index(cursor)?,
        _ => parse_indexes(cursor)?,
    };
    cursor.skip_blanks();
    cursor.expect("]")?;
    Ok(step)
}

/// `(@.length-1)`, the only script expression that is still in use: index `-1`.
fn parse_length_index(cursor: &mut Cursor<'_>) -> Result<QueryStep, SyntaxError> {
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
    Ok(QueryStep::Index(-back))
}

fn parse_names(cursor: &mut Cursor<'_>) -> Result<QueryStep, SyntaxError> {
    let mut names = Vec::new();
    loop {
        cursor.skip_blanks();
        let quote = match cursor.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(cursor.unexpected("a name in quotes")),
        };
        names.push(unescape(cursor.quoted(quote)?, quote)?);
        cursor.skip_blanks();
        if !cursor.eat(",") {
            break;
        }
    }
    Ok(match names.pop() {
        Some(name) if names.is_empty() => QueryStep::Name(name),
        last => {
            names.extend(last);
            QueryStep::Names(names)
        }
    })
}

/// Unescapes a quoted text: `\\`, `\uXXXX` and the quote itself. Any other backslash is
/// literal, as on AWS: `'a\"b'` is a name of four characters with a backslash.
pub(super) fn unescape(raw: &str, quote: char) -> Result<String, SyntaxError> {
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

fn unicode_escape(rest: &mut Cursor<'_>) -> Result<char, SyntaxError> {
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

fn code_unit(rest: &mut Cursor<'_>) -> Result<u16, SyntaxError> {
    let before = rest.clone();
    rest.expect("u")?;
    let digits = rest.rest().get(..4).unwrap_or_default();
    rest.eat(digits);
    u16::from_str_radix(digits, 16)
        .map_err(|_| before.unexpected("\\u and four hexadecimal digits"))
}

/// `3`, `0, 2` or a slice.
fn parse_indexes(cursor: &mut Cursor<'_>) -> Result<QueryStep, SyntaxError> {
    let first = parse_bound(cursor)?;
    if cursor.peek() == Some(':') {
        return parse_slice(cursor, first);
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
        QueryStep::Index(first)
    } else {
        QueryStep::Indexes(indexes)
    })
}

fn parse_slice(cursor: &mut Cursor<'_>, from: Option<i64>) -> Result<QueryStep, SyntaxError> {
    cursor.expect(":")?;
    let to = parse_bound(cursor)?;
    let mut step = 1;
    if cursor.eat(":") {
        let before = cursor.clone();
        step = match parse_bound(cursor)? {
            None => 1,
            Some(step) => usize::try_from(step)
                .ok()
                .filter(|step| *step > 0)
                .ok_or_else(|| before.unexpected("a step of 1 or more"))?,
        };
    }
    Ok(QueryStep::Slice(SliceBounds { from, to, step }))
}

/// An integer, if there is one.
fn parse_bound(cursor: &mut Cursor<'_>) -> Result<Option<i64>, SyntaxError> {
    cursor.skip_blanks();
    let bound = match cursor.peek() {
        Some('-' | '0'..='9') => Some(cursor.integer()?),
        _ => None,
    };
    cursor.skip_blanks();
    Ok(bound)
}
