//! Encodes rows, one group at a time.

use ballast_domain::PollId;
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::schema::{self, MAGIC};
use crate::shard::{Digest, SliceKey, VoterName, VoterPrint, VoterRow};

/// Encodes one file.
pub(in crate::archive) struct Encoder {
    writer: SerializedFileWriter<Vec<u8>>,
    poll: PollId,
    key: SliceKey,
    last: Option<VoterPrint>,
    digest: Digest,
    checksums: Vec<String>,
    bytes: u64,
}

/// The description of an encoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::archive) struct Encoded {
    pub(in crate::archive) digest: Digest,
    pub(in crate::archive) bytes: u64,
    pub(in crate::archive) tail_bytes: u64,
    pub(in crate::archive) checksum: String,
}

impl Encoder {
    pub(in crate::archive) fn new(poll: PollId, key: SliceKey) -> Result<Self> {
        let properties = schema::properties().into();
        Ok(Self {
            writer: SerializedFileWriter::new(Vec::new(), schema::columns()?, properties)?,
            poll,
            key,
            last: None,
            digest: Digest::default(),
            checksums: Vec::new(),
            bytes: 0,
        })
    }

    /// Encodes a group; returns its bytes, which follow those of the group
    /// before. Rows must be in the order of their fingerprints, each voter
    /// once.
    pub(in crate::archive) fn group(&mut self, rows: &[VoterRow]) -> Result<Vec<u8>> {
        let mut prints = Vec::with_capacity(rows.len());
        for row in rows {
            let print = match &row.voter {
                VoterName::Named(name) => self.key.voter_print(name.as_str()),
                VoterName::Erased(print) => *print,
            };
            if row.poll != self.poll || self.last.is_some_and(|last| last >= print) {
                let what = "rows of another poll, or out of order";
                return Err(ParquetError::General(what.to_owned()));
            }
            self.last = Some(print);
            let hash = self.key.hash_row(self.poll, print, &row.items, row.version);
            self.digest.add(hash);
            prints.push(print);
        }
        let mut group = self.writer.next_row_group()?;
        write_columns(&mut group, rows, &prints)?;
        group.close()?;
        let bytes = self.take_written()?;
        let own = match self.checksums.is_empty() {
            true => bytes.get(MAGIC.len()..).unwrap_or_default(),
            false => &bytes,
        };
        self.checksums.push(schema::group_checksum(own));
        Ok(bytes)
    }

    /// Encodes the tail.
    pub(in crate::archive) fn finish(mut self) -> Result<(Vec<u8>, Encoded)> {
        let Digest { rows, sum } = self.digest;
        let sum = sum.map(|limb| format!("{limb:016x}"));
        let metadata_value = [
            (schema::FORMAT, schema::VERSION.to_string()),
            (schema::POLL, self.poll.to_string()),
            (schema::ROWS, rows.to_string()),
            (schema::DIGEST, sum.join("")),
            (schema::GROUPS, self.checksums.join(",")),
        ];
        for (key, value) in metadata_value {
            let pair = KeyValue::new(key.to_owned(), value);
            self.writer.append_key_value_metadata(pair);
        }
        self.writer.finish()?;
        let before = self.bytes.max(MAGIC.len() as u64);
        let bytes = self.take_written()?;
        // In a file without rows the tail starts after the magic bytes.
        let skipped = bytes.len() as u64 - (self.bytes - before);
        let tail = &bytes[skipped as usize..];
        let encoded = Encoded {
            digest: self.digest,
            bytes: self.bytes,
            tail_bytes: tail.len() as u64,
            checksum: blake3::hash(tail).to_hex().to_string(),
        };
        Ok((bytes, encoded))
    }

    /// Takes the bytes that were written since the last call.
    fn take_written(&mut self) -> Result<Vec<u8>> {
        self.writer.flush()?;
        let bytes = std::mem::take(self.writer.inner_mut());
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

type RowGroupWriter<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// Writes the columns in the order of the schema.
fn write_columns(
    group: &mut RowGroupWriter<'_>,
    rows: &[VoterRow],
    prints: &[VoterPrint],
) -> Result<()> {
    let prints: Vec<FixedLenByteArray> = prints.iter().map(print_bytes).collect();
    column::<FixedLenByteArrayType>(group, &prints, None, None)?;
    write_voters(group, rows)?;
    let items: Vec<i32> = rows
        .iter()
        .flat_map(|row| row.items.iter().map(|item| i32::from(*item)))
        .collect();
    let (def, rep) = levels(rows.iter().map(|row| row.items.len()));
    column::<Int32Type>(group, &items, Some(&def), Some(&rep))?;
    let epochs: Vec<i64> = rows.iter().map(|row| row.version.epoch.0 as i64).collect();
    column::<Int64Type>(group, &epochs, None, None)?;
    let revisions: Vec<i32> = rows.iter().map(|row| row.version.revision as i32).collect();
    column::<Int32Type>(group, &revisions, None, None)?;
    let (def, rep) = levels(rows.iter().map(|row| row.requests.len()));
    let requests = || rows.iter().flat_map(|row| row.requests.iter());
    let ids: Vec<i64> = requests().map(|(id, _)| id.0 as i64).collect();
    column::<Int64Type>(group, &ids, Some(&def), Some(&rep))?;
    let revisions: Vec<i32> = requests().map(|(_, revision)| *revision as i32).collect();
    column::<Int32Type>(group, &revisions, Some(&def), Some(&rep))?;
    let times: Vec<i64> = rows.iter().map(|row| row.voted_at.unix_ms()).collect();
    column::<Int64Type>(group, &times, None, None)
}

/// Writes the names; null for erased ones.
fn write_voters(group: &mut RowGroupWriter<'_>, rows: &[VoterRow]) -> Result<()> {
    let (mut names, mut def) = (Vec::new(), Vec::new());
    for row in rows {
        match &row.voter {
            VoterName::Named(name) => {
                names.push(ByteArray::from(name.as_str().as_bytes().to_vec()));
                def.push(1);
            }
            VoterName::Erased(_) => def.push(0),
        }
    }
    column::<ByteArrayType>(group, &names, Some(&def), None)
}

fn column<T: parquet::data_type::DataType>(
    group: &mut RowGroupWriter<'_>,
    values: &[T::T],
    def: Option<&[i16]>,
    rep: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has too few columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, def, rep)?;
    column.close()
}

/// The levels of a list column: whether there is an element, and whether it
/// continues the row.
fn levels(lengths: impl Iterator<Item = usize>) -> (Vec<i16>, Vec<i16>) {
    let (mut def, mut rep) = (Vec::new(), Vec::new());
    for length in lengths {
        def.push(i16::from(length > 0));
        rep.push(0);
        for _ in 1..length {
            def.push(1);
            rep.push(1);
        }
    }
    (def, rep)
}

/// Byte order equals the order of fingerprints.
fn print_bytes(print: &VoterPrint) -> FixedLenByteArray {
    let mut bytes = print.0[0].to_be_bytes().to_vec();
    bytes.extend_from_slice(&print.0[1].to_be_bytes());
    bytes.into()
}
