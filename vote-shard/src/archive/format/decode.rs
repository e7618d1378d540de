//! Decodes rows, one group at a time, and only from bytes with the right
//! checksum.

use std::ops::Range;
use std::sync::Arc;

use ballast_domain::poll::RequestId;
use ballast_domain::tenant::Epoch;
use ballast_domain::{PollId, Timestamp, VoterId};
use bytes::{Buf as _, Bytes};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length, RowGroupReader};
use parquet::file::serialized_reader::SerializedRowGroupReader;

use super::schema;
use crate::shard::{ArchiveFile, RowVersion, SliceKey, VoterName, VoterPrint, VoterRow};

/// The verified and parsed tail.
pub(in crate::archive) struct FileTail {
    metadata: ParquetMetaData,
    checksums: Vec<String>,
    poll: PollId,
}

/// A row and its voter's fingerprint.
pub(in crate::archive) type PrintedRow = (VoterPrint, VoterRow);

/// An error about the file's content.
fn content_error(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

impl FileTail {
    /// Verifies and parses a file's tail.
    pub(in crate::archive) fn read(file: &ArchiveFile, poll: PollId, tail: Bytes) -> Result<Self> {
        if blake3::hash(&tail).to_hex().as_str() != file.checksum {
            return Err(content_error("checksum mismatch in the tail"));
        }
        let piece = FileChunk {
            bytes: tail,
            at: file.bytes - file.tail_bytes,
        };
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Skip)
            .parse_and_finish(&piece)?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let metadata_value = |key: &str| {
            let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == key));
            pair.and_then(|pair| pair.value.clone()).unwrap_or_default()
        };
        match metadata_value(schema::FORMAT).parse::<u32>() {
            Ok(found) if found <= schema::VERSION => {}
            Ok(found) => {
                let known = schema::VERSION;
                return Err(content_error(format!(
                    "format version {found}; this program supports {known}"
                )));
            }
            Err(_) => return Err(content_error("missing format version")),
        }
        let sum = file.digest.sum.map(|limb| format!("{limb:016x}")).join("");
        if metadata_value(schema::POLL) != poll.to_string() {
            return Err(content_error("the file belongs to another poll"));
        }
        if (metadata_value(schema::ROWS), metadata_value(schema::DIGEST))
            != (file.digest.rows.to_string(), sum)
        {
            return Err(content_error("its rows differ from the shard's record"));
        }
        let groups = metadata_value(schema::GROUPS);
        let checksums: Vec<String> = groups
            .split(',')
            .filter(|sum| !sum.is_empty())
            .map(str::to_owned)
            .collect();
        if checksums.len() != metadata.num_row_groups() {
            return Err(content_error(
                "the number of checksums differs from the number of groups",
            ));
        }
        Ok(Self {
            metadata,
            checksums,
            poll,
        })
    }

    pub(in crate::archive) fn groups(&self) -> usize {
        self.checksums.len()
    }

    /// A group's byte range.
    pub(in crate::archive) fn range(&self, group: usize) -> Range<u64> {
        let ranges = self.metadata.row_group(group).columns().iter();
        let ranges = ranges.map(|column| column.byte_range());
        let (start, end) = ranges.fold((u64::MAX, 0), |(first, last), (start, length)| {
            (first.min(start), last.max(start + length))
        });
        start..end.max(start)
    }

    /// A group's last fingerprint, from its statistics.
    pub(in crate::archive) fn last(&self, group: usize) -> Option<VoterPrint> {
        let column = self.metadata.row_group(group).column(schema::PRINT);
        parse_print(column.statistics()?.max_bytes_opt()?)
    }

    /// Verifies a group's checksum.
    pub(in crate::archive) fn check(&self, group: usize, bytes: &[u8]) -> Result<()> {
        match schema::group_checksum(bytes) == self.checksums[group] {
            true => Ok(()),
            false => Err(content_error(format!("checksum mismatch in group {group}"))),
        }
    }

    /// Verifies and decodes a group.
    pub(in crate::archive) fn rows(
        &self,
        group: usize,
        bytes: Bytes,
        key: &SliceKey,
    ) -> Result<Vec<PrintedRow>> {
        self.check(group, &bytes)?;
        let at = self.range(group).start;
        let metadata = self.metadata.row_group(group);
        let count = usize::try_from(metadata.num_rows())?;
        let reader = SerializedRowGroupReader::new(
            Arc::new(FileChunk { bytes, at }),
            metadata,
            self.metadata.page_index_for_row_group(group),
            Arc::new(ReaderProperties::builder().build()),
        )?;
        Columns::read(&reader, count)?.rows(self.poll, key)
    }
}

/// The columns of a group.
struct Columns {
    prints: Vec<VoterPrint>,
    voters: Vec<Option<String>>,
    items: Vec<Vec<i32>>,
    epochs: Vec<i64>,
    revisions: Vec<i32>,
    requests: Vec<Vec<i64>>,
    request_revisions: Vec<Vec<i32>>,
    times: Vec<i64>,
}

impl Columns {
    fn read(group: &dyn RowGroupReader, count: usize) -> Result<Self> {
        let prints = read_plain::<FixedLenByteArrayType>(group, schema::PRINT, count)?;
        let prints = prints.iter().map(|print| parse_print(print.data()));
        let (names, def, _) = read_leaf::<ByteArrayType>(group, schema::VOTER, count)?;
        let mut names = names.into_iter();
        let voters = def.iter().map(|def| match def {
            0 => Ok(None),
            _ => {
                let name = names
                    .next()
                    .ok_or_else(|| content_error("missing voter name"))?;
                let name = name.as_utf8()?.to_owned();
                Ok(Some(name))
            }
        });
        Ok(Self {
            voters: voters.collect::<Result<_>>()?,
            prints: prints
                .collect::<Option<_>>()
                .ok_or_else(|| content_error("fingerprint of wrong length"))?,
            items: read_lists::<Int32Type>(group, schema::ITEMS, count)?,
            epochs: read_plain::<Int64Type>(group, schema::EPOCH, count)?,
            revisions: read_plain::<Int32Type>(group, schema::REVISION, count)?,
            requests: read_lists::<Int64Type>(group, schema::REQUESTS, count)?,
            request_revisions: read_lists::<Int32Type>(group, schema::REQUEST_REVISIONS, count)?,
            times: read_plain::<Int64Type>(group, schema::VOTED_AT, count)?,
        })
    }

    fn rows(self, poll: PollId, key: &SliceKey) -> Result<Vec<PrintedRow>> {
        let mut rows: Vec<PrintedRow> = Vec::with_capacity(self.prints.len());
        for (index, print) in self.prints.into_iter().enumerate() {
            let voter = match &self.voters[index] {
                None => VoterName::Erased(print),
                // Recompute the fingerprint: this detects another slice's key.
                Some(name) if key.voter_print(name) != print => {
                    return Err(content_error("fingerprint differs from the voter's name"));
                }
                Some(name) => {
                    let name = VoterId::new(name.as_str());
                    VoterName::Named(name.map_err(|bad| content_error(bad.to_string()))?)
                }
            };
            if rows.last().is_some_and(|(last, _)| *last >= print) {
                return Err(content_error("rows out of order"));
            }
            let requests = self.requests[index].iter();
            let revisions = self.request_revisions[index].iter();
            let row = VoterRow {
                poll,
                voter,
                items: self.items[index].iter().map(|item| *item as u16).collect(),
                version: RowVersion {
                    epoch: Epoch(self.epochs[index] as u64),
                    revision: self.revisions[index] as u32,
                },
                requests: requests
                    .zip(revisions)
                    .map(|(id, revision)| (RequestId(*id as u64), *revision as u32))
                    .collect(),
                voted_at: Timestamp::from_unix_ms(self.times[index]),
            };
            rows.push((print, row));
        }
        Ok(rows)
    }
}

/// The values of a column, and the levels that separate its rows.
#[allow(clippy::type_complexity)]
fn read_leaf<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    count: usize,
) -> Result<(Vec<T::T>, Vec<i16>, Vec<i16>)> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
    let (mut values, mut def, mut rep) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        let (more, ..) =
            reader.read_records(count - read, Some(&mut def), Some(&mut rep), &mut values)?;
        if more == 0 {
            return Err(content_error("too few rows in a column"));
        }
        read += more;
    }
    Ok((values, def, rep))
}

fn read_plain<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    count: usize,
) -> Result<Vec<T::T>> {
    let (values, ..) = read_leaf::<T>(group, column, count)?;
    match values.len() == count {
        true => Ok(values),
        false => Err(content_error("wrong number of rows in a column")),
    }
}

fn read_lists<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    count: usize,
) -> Result<Vec<Vec<T::T>>> {
    let (values, def, rep) = read_leaf::<T>(group, column, count)?;
    let mut values = values.into_iter();
    let mut lists: Vec<Vec<T::T>> = Vec::with_capacity(count);
    for (def, rep) in def.into_iter().zip(rep) {
        if rep == 0 {
            lists.push(Vec::new());
        }
        if def > 0
            && let Some(list) = lists.last_mut()
        {
            list.extend(values.next());
        }
    }
    match lists.len() == count && values.next().is_none() {
        true => Ok(lists),
        false => Err(content_error("wrong number of rows in a column")),
    }
}

fn parse_print(bytes: &[u8]) -> Option<VoterPrint> {
    let (high, low) = bytes.split_first_chunk::<8>()?;
    let low: &[u8; 8] = low.try_into().ok()?;
    Some(VoterPrint([
        u64::from_be_bytes(*high),
        u64::from_be_bytes(*low),
    ]))
}

/// A range of a file, at its offset.
struct FileChunk {
    bytes: Bytes,
    at: u64,
}

impl Length for FileChunk {
    fn len(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl ChunkReader for FileChunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let length = self.len().saturating_sub(start);
        Ok(self.get_bytes(start, usize::try_from(length)?)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let outside = || content_error("offset outside of the read range");
        let start = start.checked_sub(self.at).ok_or_else(outside)?;
        let start = usize::try_from(start)?;
        let end = start.checked_add(length).ok_or_else(outside)?;
        match end <= self.bytes.len() {
            true => Ok(self.bytes.slice(start..end)),
            false => Err(outside()),
        }
    }
}
