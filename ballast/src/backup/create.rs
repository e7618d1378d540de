//! Creates a backup, while votes arrive.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use ballast_control_plane::registry::sqlite::{SqliteRegistry, copy_to};
use ballast_control_plane::registry::typed;
use ballast_domain::registry::{RecordKind, RecordQuery, Registry};
use ballast_domain::shard::Shard;
use ballast_domain::slicing::RecutPhase;
use ballast_domain::tenant::{Epoch, SliceId, Tenant};
use ballast_domain::{Clock, ShardId};
use ballast_vote_shard::embedded::disk::{Disk, RealDisk};
use ballast_vote_shard::embedded::inspect::{Inspection, inspect, list_required_files};

use super::archives;
use super::manifest::{FORMAT, FileCopy, Manifest, NAME, RegistryCopy, ShardCopy};
use crate::machine::SystemClock;
use crate::up::{CERTIFICATE_KEY, EXECUTIONS, KnownShards, REGISTRY, SHARD_IDENTITY};

/// How often a shard is copied again if its files changed during the copy.
const ATTEMPTS: usize = 10;

/// Copies everything and returns the manifest.
pub(super) async fn create(data_dir: &Path, destination: &Path) -> anyhow::Result<Manifest> {
    let registry = data_dir.join(REGISTRY);
    if !registry.exists() {
        bail!("{} contains no Ballast data", data_dir.display());
    }
    crate::up::read_format(data_dir)?;
    make_empty(destination)?;
    let mut copies: Vec<ShardCopy> = Vec::new();
    let draft = destination.join("registry.draft.db");
    let copy = destination.join(REGISTRY);
    copy_to(&registry, &draft).await?;
    let mut before = read_registry(&draft).await?;
    remove_database(&draft)?;
    let mut stale: Vec<ShardId> = before.shards.iter().map(|s| s.shard_id.clone()).collect();
    let mut attempt = 0;
    let after = loop {
        for shard in &before.shards {
            if stale.contains(&shard.shard_id) {
                let made = back_up_shard(data_dir, destination, shard).await?;
                copies.retain(|copy| copy.shard_id != made.shard_id);
                copies.push(made);
            }
        }
        // Copy the registry after the shards, so that all copied votes have a tenant. A slice that
        // cut over meanwhile may be complete on neither shard's copy: copy both shards again.
        remove_database(&copy)?;
        copy_to(&registry, &copy).await?;
        let after = read_registry(&copy).await?;
        stale = find_stale_shards(&before, &after);
        if stale.is_empty() {
            break after;
        }
        attempt += 1;
        if attempt >= ATTEMPTS {
            bail!(
                "slices kept moving to and from {}: pause the migrations (ballast migration pause), then try again",
                stale
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        before = after;
    };
    copies.sort_by(|one, two| one.shard_id.cmp(&two.shard_id));
    let executions = copy_executions(data_dir, destination).await?;
    let manifest = Manifest {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: SystemClock.now(),
        registry: RegistryCopy {
            file: FileCopy::from_file(&copy, REGISTRY)?,
            revision: after.revision,
            tenants: after.tenants,
        },
        shards: copies,
        executions,
        certificate_key: copy_key(data_dir, destination)?,
    };
    write_last(destination, &manifest)?;
    Ok(manifest)
}

/// Copies the execution store, if there is one.
async fn copy_executions(data_dir: &Path, destination: &Path) -> anyhow::Result<Option<FileCopy>> {
    let from = data_dir.join(EXECUTIONS);
    if !from.exists() {
        return Ok(None);
    }
    let to = destination.join(EXECUTIONS);
    copy_to(&from, &to).await?;
    FileCopy::from_file(&to, EXECUTIONS).map(Some)
}

/// Copies the certificate signing key, if there is one. The copy keeps the permissions: only its
/// owner may read it.
fn copy_key(data_dir: &Path, destination: &Path) -> anyhow::Result<Option<FileCopy>> {
    let from = data_dir.join(CERTIFICATE_KEY);
    if !from.exists() {
        return Ok(None);
    }
    let to = destination.join(CERTIFICATE_KEY);
    fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
    File::open(&to)?.sync_all()?;
    FileCopy::from_file(&to, CERTIFICATE_KEY).map(Some)
}

/// Creates an empty directory that only its owner may read.
pub(super) fn make_empty(directory: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("make {}", directory.display()))?;
    let mut entries = fs::read_dir(directory)?;
    if entries.next().is_some() {
        bail!("{} is not empty", directory.display());
    }
    Ok(())
}

/// What a registry contains.
struct RegistryContents {
    shards: Vec<Shard>,
    revision: u64,
    tenants: u64,
    /// The owner and epoch of each slice.
    owners: BTreeMap<SliceId, (ShardId, Epoch)>,
    /// Shards with a recut that they do not know of yet.
    cutting: Vec<ShardId>,
}

async fn read_registry(path: &Path) -> anyhow::Result<RegistryContents> {
    let registry = SqliteRegistry::open(path, Arc::new(SystemClock)).await?;
    let query = RecordQuery::all(RecordKind::Shard, u32::MAX);
    let shards = typed::list::<Shard>(&registry, &query).await?;
    let revision = registry.revision().await?;
    let tenants =
        typed::list::<Tenant>(&registry, &RecordQuery::all(RecordKind::Tenant, u32::MAX)).await?;
    registry.close().await;
    let cuts = tenants.iter().filter_map(|tenant| {
        let cut = tenant.value.slicing.as_ref()?.recut.as_ref()?;
        (cut.phase == RecutPhase::Cut).then(|| cut.shard_id.clone())
    });
    let cutting = cuts.collect();
    let owners = tenants.iter().flat_map(|tenant| {
        let tenant_id = &tenant.value.tenant_id;
        tenant.value.slices.iter().map(move |slice| {
            let id = SliceId {
                tenant_id: tenant_id.clone(),
                slice: slice.slice,
            };
            (id, (slice.shard_id.clone(), slice.epoch))
        })
    });
    Ok(RegistryContents {
        owners: owners.collect(),
        cutting,
        tenants: tenants.len() as u64,
        shards: shards.into_iter().map(|shard| shard.value).collect(),
        revision,
    })
}

/// The shards whose copies are stale: slices moved or were recut, or the shard is new.
fn find_stale_shards(before: &RegistryContents, after: &RegistryContents) -> Vec<ShardId> {
    let moved = after.owners.iter().filter_map(|(slice, now)| {
        let was = before.owners.get(slice)?;
        (was != now).then(|| [was.0.clone(), now.0.clone()])
    });
    // A slice that disappeared was recut, on its shard.
    let gone = before.owners.iter();
    let gone = gone.filter(|(slice, _)| !after.owners.contains_key(slice));
    let cut = gone.map(|(_, (shard, _))| shard.clone());
    let cut = cut.chain(after.cutting.iter().cloned());
    let known = |id: &ShardId| before.shards.iter().any(|shard| shard.shard_id == *id);
    let new = after.shards.iter().map(|shard| shard.shard_id.clone());
    let mut stale: Vec<_> = moved
        .flatten()
        .chain(cut)
        .chain(new.filter(|id| !known(id)))
        .collect();
    stale.sort();
    stale.dedup();
    stale
}

/// Copies a shard and describes the copy.
async fn back_up_shard(
    data_dir: &Path,
    destination: &Path,
    shard: &Shard,
) -> anyhow::Result<ShardCopy> {
    let Some(directory) = shard.url.strip_prefix("file:") else {
        bail!(
            "{} is at {}: only file: shards can be backed up",
            shard.shard_id,
            shard.url
        );
    };
    let from = data_dir.join(directory);
    // Always inside the backup, wherever the shard is.
    let directory = format!("shards/{}", shard.shard_id);
    let to = destination.join(&directory);
    if !from.exists() && KnownShards::new(data_dir).was_opened(&shard.shard_id) {
        bail!(
            "the files of {} are missing: {}",
            shard.shard_id,
            from.display()
        );
    }
    // A repeated copy lists other files.
    let archived = archives::directory(destination, &shard.shard_id);
    if archived.exists() {
        fs::remove_dir_all(archived)?;
    }
    let (files, seen, archive) = copy_all(data_dir, destination, &shard.shard_id, &from, &to)
        .await
        .with_context(|| format!("copy {}", shard.shard_id))?;
    Ok(ShardCopy {
        shard_id: shard.shard_id.clone(),
        directory,
        position: seen.last_group,
        as_of: seen.as_of,
        polls: seen.polls,
        voters: seen.voters,
        votes: seen.votes,
        digest: seen.digest,
        files,
        archive,
    })
}

fn remove_database(path: &Path) -> anyhow::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Copies a shard, then the files of closed polls that its copy lists. If a file disappears
/// meanwhile because its poll moved or was rewritten, the next copy of the shard no longer lists
/// it.
async fn copy_all(
    data_dir: &Path,
    destination: &Path,
    shard: &ShardId,
    from: &Path,
    to: &Path,
) -> anyhow::Result<(Vec<FileCopy>, Inspection, Vec<FileCopy>)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let (files, seen) = copy_shard(from, to)?;
        match archives::copy(data_dir, destination, shard, &seen.archives).await {
            Ok(archive) => return Ok((files, seen, archive)),
            Err(error) => last = Some(error),
        }
        let copied = archives::directory(destination, shard);
        if copied.exists() {
            fs::remove_dir_all(copied)?;
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("nothing was copied")))
        .context("a file of a closed poll is missing or damaged")
}

/// Copies a shard's files until the copy is consistent: the shard may remove and reuse files
/// meanwhile.
fn copy_shard(from: &Path, to: &Path) -> anyhow::Result<(Vec<FileCopy>, Inspection)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::create_dir_all(to)?;
        if !from.exists() {
            // Never opened: nothing to copy.
            return Ok((Vec::new(), Inspection::default()));
        }
        match try_copy(from, to) {
            Ok((files, seen)) if seen.problems.is_empty() => return Ok((files, seen)),
            Ok((_, seen)) => last = Some(anyhow::anyhow!(seen.problems.join("; "))),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("nothing was copied")))
        .context("its files changed during every attempt, or are damaged (ballast shard verify)")
}

fn try_copy(from: &Path, to: &Path) -> anyhow::Result<(Vec<FileCopy>, Inspection)> {
    let source = RealDisk::read_only(from)?;
    let mut names = list_required_files(&source)?;
    if from.join(SHARD_IDENTITY).exists() {
        names.push(SHARD_IDENTITY.to_owned());
    }
    for name in &names {
        fs::copy(from.join(name), to.join(name))?;
        File::open(to.join(name))?.sync_all()?;
    }
    let copy: Arc<dyn Disk> = Arc::new(RealDisk::read_only(to)?);
    let seen = inspect(&copy, true)?;
    let files = names
        .iter()
        .map(|name| FileCopy::from_file(&to.join(name), name))
        .collect::<anyhow::Result<_>>()?;
    File::open(to)?.sync_all()?;
    Ok((files, seen))
}

/// Writes the manifest last and durably: without it the backup is invalid.
fn write_last(destination: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    remove_sidecars(destination)?;
    let draft = destination.join("manifest.json.new");
    fs::write(&draft, serde_json::to_vec_pretty(manifest)?)?;
    File::open(&draft)?.sync_all()?;
    File::open(destination.join(REGISTRY))?.sync_all()?;
    fs::rename(&draft, destination.join(NAME))?;
    File::open(destination)?.sync_all()?;
    Ok(())
}

fn remove_sidecars(destination: &Path) -> anyhow::Result<()> {
    for name in ["registry.db-wal", "registry.db-shm"] {
        match fs::remove_file(destination.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
