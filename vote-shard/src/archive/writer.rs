//! Writes a poll's rows to a file, group by group.

use ballast_domain::PollId;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _};

use super::error::{ArchiveError, ArchiveResult};
use super::format::{Encoded, Encoder, ROWS_PER_GROUP};
use super::store::Archive;
use crate::shard::{SliceKey, VoterRow};

/// Minimum part size of object stores, except for the last part.
const PART_BYTES: usize = 5 << 20;

/// A draft in progress. Dropping it leaves no named file.
pub(super) struct FileDraft {
    path: String,
    upload: Box<dyn MultipartUpload>,
    /// Not uploaded yet.
    waiting: Vec<u8>,
}

impl FileDraft {
    pub(super) async fn begin(archive: &Archive, path: &str) -> ArchiveResult<Self> {
        let upload = archive.store().put_multipart(&Path::from(path)).await;
        Ok(Self {
            path: path.to_owned(),
            upload: upload.map_err(ArchiveError::store("begin", path))?,
            waiting: Vec::new(),
        })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> ArchiveResult<()> {
        self.waiting.extend_from_slice(bytes);
        match self.waiting.len() >= PART_BYTES {
            true => self.hand_over().await,
            false => Ok(()),
        }
    }

    async fn hand_over(&mut self) -> ArchiveResult<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let part = Bytes::from(std::mem::take(&mut self.waiting));
        let put = self.upload.put_part(part.into()).await;
        put.map_err(ArchiveError::store("write", &self.path))
    }

    /// Completes the upload; the file is durable afterwards.
    pub(super) async fn finish(mut self) -> ArchiveResult<()> {
        self.hand_over().await?;
        let completed = self.upload.complete().await;
        completed
            .map(drop)
            .map_err(ArchiveError::store("finish", &self.path))
    }

    /// Aborts the upload.
    pub(super) async fn abort(mut self) {
        // Leftovers have no name and are removed later.
        let _ = self.upload.abort().await;
    }
}

/// Writes rows, in the order of their fingerprints, to a file.
pub(super) struct ArchiveWriter {
    draft: FileDraft,
    encoder: Encoder,
    rows: Vec<VoterRow>,
}

impl ArchiveWriter {
    pub(super) async fn begin(
        archive: &Archive,
        path: &str,
        poll: PollId,
        key: SliceKey,
    ) -> ArchiveResult<Self> {
        Ok(Self {
            encoder: Encoder::new(poll, key).map_err(ArchiveError::parquet(path))?,
            draft: FileDraft::begin(archive, path).await?,
            rows: Vec::new(),
        })
    }

    pub(super) async fn push(&mut self, row: VoterRow) -> ArchiveResult<()> {
        self.rows.push(row);
        match self.rows.len() >= ROWS_PER_GROUP {
            true => self.group().await,
            false => Ok(()),
        }
    }

    async fn group(&mut self) -> ArchiveResult<()> {
        let group = self.encoder.group(&self.rows);
        let bytes = group.map_err(ArchiveError::parquet(&self.draft.path))?;
        self.rows.clear();
        self.draft.write(&bytes).await
    }

    pub(super) async fn finish(mut self) -> ArchiveResult<Encoded> {
        if !self.rows.is_empty() {
            self.group().await?;
        }
        let finished = self.encoder.finish();
        let (bytes, encoded) = finished.map_err(ArchiveError::parquet(&self.draft.path))?;
        self.draft.write(&bytes).await?;
        self.draft.finish().await?;
        Ok(encoded)
    }

    pub(super) async fn abort(self) {
        self.draft.abort().await;
    }
}
