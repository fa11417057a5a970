//! The keys `sandbox` and `defaults.policy`: where programs of an agent run, and what is asked
//! about where no rule says.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_core::policy::{ClassPolicy, Effect};
use skep_core::settings::{SandboxLevel, SandboxLimits, SandboxNetwork, SandboxSettings};

use super::mistake::Mistake;
use super::scalar::BoundedInteger;
use super::source::SourceText;

const MIB: u64 = 1 << 20;

/// Where programs run that an agent starts.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawSandbox {
    /// `confined` (the default), or `host`: no walls at all.
    level: Option<RawLevel>,
    /// What confined programs reach: `proxy` (the default), the hosts of `network`; `none`; or
    /// `full`, whatever this machine reaches.
    network: Option<RawSandboxNetwork>,
    /// What the workspace may take of the disk, in MiB (8192); one that takes more can only be
    /// made smaller.
    workspace_mib: Option<BoundedInteger<1, 16_777_216>>,
    limits: RawSandboxLimits,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RawLevel {
    Confined,
    Host,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RawSandboxNetwork {
    None,
    Proxy,
    Full,
}

/// What a command and all it starts may take.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawSandboxLimits {
    /// Seconds of processor time of one process (600).
    cpu_seconds: Option<BoundedInteger<1, 604_800>>,
    /// Memory of all processes together, in MiB (2048).
    memory_mib: Option<BoundedInteger<16, 1_048_576>>,
    /// Processes at the same time (256).
    processes: Option<BoundedInteger<8, 32_768>>,
    /// What one command may fill of the disk, in MiB (4096).
    disk_mib: Option<BoundedInteger<1, 16_777_216>>,
}

/// What becomes of a tool call, by what the tool does.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawPolicy {
    /// Tools that only look (allow).
    read: Option<RawEffect>,
    /// Tools that change files of the agent (allow).
    write: Option<RawEffect>,
    /// Tools that run programs (allow in the sandbox, else ask).
    run: Option<RawEffect>,
    /// Tools that write to the network or to people (ask).
    reach: Option<RawEffect>,
    /// Tools that change the hive (ask).
    shape: Option<RawEffect>,
}

/// `raw`, which stands at `path` of the file, over `usual`.
pub fn sandbox(
    raw: &RawSandbox,
    usual: SandboxSettings,
    (source, path): (&SourceText, &[&str]),
) -> Result<SandboxSettings, Mistake> {
    let limits = &raw.limits;
    let settings = SandboxSettings {
        level: match raw.level {
            None => usual.level,
            Some(RawLevel::Confined) => SandboxLevel::Confined,
            Some(RawLevel::Host) => SandboxLevel::Host,
        },
        network: match raw.network {
            None => usual.network,
            Some(RawSandboxNetwork::None) => SandboxNetwork::None,
            Some(RawSandboxNetwork::Proxy) => SandboxNetwork::Proxy,
            Some(RawSandboxNetwork::Full) => SandboxNetwork::Full,
        },
        limits: SandboxLimits {
            cpu: limits.cpu_seconds.map(|n| Duration::from_secs(n.0)).or(usual.limits.cpu),
            memory_bytes: limits.memory_mib.map(|n| n.0 * MIB).or(usual.limits.memory_bytes),
            processes: limits.processes.map(|n| n.0).or(usual.limits.processes),
            disk_bytes: limits.disk_mib.map(|n| n.0 * MIB).or(usual.limits.disk_bytes),
            workspace_bytes: raw.workspace_mib.map(|n| n.0 * MIB).or(usual.limits.workspace_bytes),
            disk_floor_bytes: usual.limits.disk_floor_bytes,
        },
    };
    let bounded = raw.network.is_some() && settings.network != SandboxNetwork::Full;
    if bounded && settings.level == SandboxLevel::Host {
        let what = "has no effect with `sandbox.level: host`: without walls, commands reach \
                    whatever this machine reaches";
        let mistake = source.mistake_at_path(&[path, &["network"]].concat(), what);
        return Err(mistake.expecting("`level: confined` beside it, or no `network` here"));
    }
    Ok(settings)
}

pub fn policy(raw: &RawPolicy) -> ClassPolicy {
    let usual = ClassPolicy::default();
    ClassPolicy {
        read: raw.read.map_or(usual.read, Effect::from),
        write: raw.write.map_or(usual.write, Effect::from),
        run: raw.run.map(Effect::from).or(usual.run),
        reach: raw.reach.map_or(usual.reach, Effect::from),
        shape: raw.shape.map_or(usual.shape, Effect::from),
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawEffect {
    Allow,
    Ask,
    Deny,
}

impl From<RawEffect> for Effect {
    fn from(raw: RawEffect) -> Self {
        match raw {
            RawEffect::Allow => Self::Allow,
            RawEffect::Ask => Self::Ask,
            RawEffect::Deny => Self::Deny,
        }
    }
}
