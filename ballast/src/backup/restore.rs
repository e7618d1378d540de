//! Restores a backup into an empty data directory.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use ballast_control_plane::intent::Intent;
use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::registry::{RegistryId, typed};
use ballast_domain::Clock;
use ballast_domain::ShardId;
use ballast_domain::registry::{RecordKind, RecordQuery, Registry};
use ballast_domain::shard::Shard;
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_state_machines::engine::cancel_open_executions;
use ballast_state_machines::store::SqliteStore;
use ballast_vote_shard::FencedSlice;
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};

use super::archives;
use super::create::make_empty;
use super::manifest::Manifest;
use super::verify::verify;
use crate::machine::{SystemClock, SystemEntropy};
use crate::up::{REGISTRY, ShardIdentity};

/// Marks an incomplete restore; `up` refuses such a data directory.
pub(crate) const RESTORING: &str = "restoring";

/// The minimum raise of every epoch: more than the backed-up instance can have used since, so that
/// its routers are fenced. The time is added, so that two restores never use the same epochs.
const EPOCHS: u64 = 1 << 20;
/// The start of the seconds, to keep epochs short.
const SINCE_SECONDS: i64 = 1_760_000_000;

fn epoch_raise() -> u64 {
    let seconds = SystemClock.now().unix_ms() / 1_000 - SINCE_SECONDS;
    EPOCHS + seconds.max(0).unsigned_abs()
}
/// Tenants changed by one commit.
const TENANTS_AT_ONCE: u32 = 1_000;

/// Verifies the backup, copies it, and raises every epoch.
pub(super) async fn restore(backup: &Path, data_dir: &Path) -> anyhow::Result<Manifest> {
    let manifest = Manifest::read(backup)?;
    let problems = verify(backup, &manifest).await;
    if !problems.is_empty() {
        bail!("the backup is damaged: {}", problems.join("; "));
    }
    make_empty(data_dir)?;
    let mark = data_dir.join(RESTORING);
    fs::write(&mark, "a backup is being restored here\n")?;
    File::open(&mark)?.sync_all()?;
    File::open(data_dir)?.sync_all()?;
    copy(&backup.join(REGISTRY), &data_dir.join(REGISTRY))?;
    for shard in &manifest.shards {
        let (from, to) = (
            backup.join(&shard.directory),
            data_dir.join(&shard.directory),
        );
        fs::create_dir_all(&to)?;
        for file in &shard.files {
            copy(&from.join(&file.name), &to.join(&file.name))?;
        }
        File::open(&to)?.sync_all()?;
        archives::restore(backup, data_dir, &shard.shard_id, &shard.archive)?;
    }
    let (registry_id, owned) = raise_registry(&data_dir.join(REGISTRY), &manifest).await?;
    for shard in &manifest.shards {
        let directory = data_dir.join(&shard.directory);
        raise_shard(&directory, &shard.shard_id, &owned).await?;
        // Earlier backups have no identity.
        ShardIdentity::claim(&directory, &shard.shard_id, &registry_id, true)?;
    }
    if let Some(executions) = &manifest.executions {
        let path = data_dir.join(&executions.name);
        copy(&backup.join(&executions.name), &path)?;
        cancel_executions(&path, &manifest).await?;
    }
    if let Some(key) = &manifest.certificate_key {
        copy(&backup.join(&key.name), &data_dir.join(&key.name))?;
    }
    crate::up::write_format(data_dir)?;
    fs::remove_file(&mark)?;
    File::open(data_dir)?.sync_all()?;
    Ok(manifest)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    Ok(File::open(to)?.sync_all()?)
}

/// Raises the epochs of all slices; returns the registry, and the owner and epoch of each slice.
async fn raise_registry(
    path: &Path,
    manifest: &Manifest,
) -> anyhow::Result<(RegistryId, Vec<(ShardId, FencedSlice)>)> {
    let registry = SqliteRegistry::open(path, Arc::new(SystemClock)).await?;
    relocate_shards(&registry, manifest).await?;
    let reason = format!("restored from the backup of {}", manifest.created_at);
    let intent = Intent::ballast("restore", &reason);
    let (mut owned, raise) = (Vec::new(), epoch_raise());
    let mut query = RecordQuery::all(RecordKind::Tenant, TENANTS_AT_ONCE);
    loop {
        let tenants = typed::list::<Tenant>(&registry, &query).await?;
        let Some(last) = tenants.last() else { break };
        query.after = Some(last.value.tenant_id.to_string());
        let mut writes = Vec::new();
        for mut tenant in tenants {
            tenant.value.restore(raise);
            for slice in &tenant.value.slices {
                let at = FencedSlice {
                    slice: SliceId {
                        tenant_id: tenant.value.tenant_id.clone(),
                        slice: slice.slice,
                    },
                    epoch: slice.epoch,
                };
                owned.push((slice.shard_id.clone(), at));
            }
            writes.push(typed::update(tenant.version, &tenant.value)?);
        }
        registry
            .commit(intent.commit("tenant.restore", writes, Vec::new()))
            .await?;
    }
    registry.close().await;
    Ok((registry.id().clone(), owned))
}

/// Points every shard to its files in the new data directory.
async fn relocate_shards(registry: &SqliteRegistry, manifest: &Manifest) -> anyhow::Result<()> {
    let query = RecordQuery::all(RecordKind::Shard, u32::MAX);
    for mut shard in typed::list::<Shard>(registry, &query).await? {
        let id = &shard.value.shard_id;
        let copy = manifest.shards.iter().find(|copy| copy.shard_id == *id);
        let url = copy.map(|copy| format!("file:{}", copy.directory));
        if let Some(url) = url.filter(|url| *url != shard.value.url) {
            shard.value.url = url;
            let intent = Intent::ballast("restore", "its files are under the data directory now");
            let writes = vec![typed::update(shard.version, &shard.value)?];
            let commit = intent.commit("shard.restore", writes, Vec::new());
            registry.commit(commit).await?;
        }
    }
    Ok(())
}

/// Cancels open executions: the restore undoes what they did since the backup.
async fn cancel_executions(path: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let store = SqliteStore::open(path).await?;
    let cause = format!("restored from the backup of {}", manifest.created_at);
    cancel_open_executions(&store, SystemClock.now().unix_ms(), &cause).await?;
    store.close().await;
    Ok(())
}

async fn raise_shard(
    directory: &Path,
    id: &ShardId,
    owned: &[(ShardId, FencedSlice)],
) -> anyhow::Result<()> {
    let shard = EmbeddedShard::open(
        id.as_str(),
        Arc::new(RealDisk::open(directory)?),
        ShardOptions {
            // Do not close polls that expired since: the restored data must match the manifest.
            allowance_ms: i64::MAX / 2,
            ..ShardOptions::default()
        },
        Arc::new(SystemClock),
        Arc::new(SystemEntropy),
    )?;
    let mut waiting = tokio::task::JoinSet::new();
    let shard = Arc::new(shard);
    for (_, at) in owned.iter().filter(|(owner, _)| owner == id) {
        let (shard, at) = (shard.clone(), at.clone());
        waiting.spawn(async move { shard.restore_slice(&at).await });
        // Batch the writes, with a limit.
        if waiting.len() >= 1_000 {
            while let Some(done) = waiting.join_next().await {
                done??;
            }
        }
    }
    while let Some(done) = waiting.join_next().await {
        done??;
    }
    tokio::task::spawn_blocking(move || drop(shard)).await?;
    Ok(())
}
