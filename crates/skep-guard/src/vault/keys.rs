//! The keys of the vault: a file of lines `ID BASE64`, outside the home. The last line seals; every
//! line opens. Lines are only ever added here: another home or a backup may need an old one.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{FlockOperation, flock};
use secrecy::zeroize::Zeroizing;

use super::VaultError;
use crate::{disk, random};
use skep_scrub::Secret;

/// The variable that names the file.
pub const KEY_VARIABLE: &str = "SKEP_VAULT_KEY_FILE";
/// The name of the credential that a service manager hands over.
pub const CREDENTIAL: &str = "skep-vault-key";

const HEAD: &str = "# The keys of Skep's vault, one a line; the last one seals. Who has this file \
                    and a home can read its secrets.\n";

pub(super) const KEY_BYTES: usize = 32;

/// Where the keys are, and who may change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    pub path: PathBuf,
    kind: PlaceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceKind {
    /// Named by the operator: read and added to, never made.
    Named,
    /// Handed over by a service manager: read alone.
    Credential,
    /// The usual one: made with the first entry.
    Usual,
}

impl KeyPlace {
    /// The first of: the file of the variable, the service manager's credential, the usual file.
    pub fn find(variables: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        if let Some(path) = variables(KEY_VARIABLE) {
            return Some(Self { path: path.into(), kind: PlaceKind::Named });
        }
        let handed = variables("CREDENTIALS_DIRECTORY");
        let handed = handed.map(|folder| Path::new(&folder).join(CREDENTIAL));
        if let Some(path) = handed.filter(|path| path.exists()) {
            return Some(Self { path, kind: PlaceKind::Credential });
        }
        let path = Path::new(&variables("HOME")?).join(".config/skep/key");
        Some(Self { path, kind: PlaceKind::Usual })
    }

    /// The folder that is ours: nobody else is to look into it.
    pub fn own_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.may_be_made())
    }

    pub(super) fn may_be_made(&self) -> bool {
        self.kind == PlaceKind::Usual
    }

    /// Adds a key, which seals from then on. The file is made only where it is the usual one.
    pub(super) fn add(&self) -> Result<VaultKeys, VaultError> {
        if self.kind == PlaceKind::Credential {
            return Err(VaultError::ReadOnly { path: self.path.clone() });
        }
        let failed = |error: io::Error| VaultError::Unreadable {
            path: self.path.clone(),
            why: error.to_string(),
        };
        // A link stays one, and what it leads to has the key.
        let path = whole(&self.path);
        let folder = path.parent().unwrap_or(Path::new("/"));
        if self.may_be_made() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        // Another home may share the file: no line of it is lost.
        let lock = File::open(folder).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        let text = match self.text() {
            Err(VaultError::NoKeyFile { .. }) if self.may_be_made() => {
                Zeroizing::new(HEAD.to_owned())
            }
            text => text?,
        };
        VaultKeys::parse(&self.path, &text)?;
        let key = Zeroizing::new(random::bytes::<KEY_BYTES>());
        let id: String = random::token().chars().take(8).collect();
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let line = Zeroizing::new(BASE64_STANDARD.encode(*key));
        let text = Zeroizing::new(format!("{}{end}{id} {}\n", *text, *line));
        disk::replace_file(&path, &text).map_err(failed)?;
        VaultKeys::parse(&self.path, &text)
    }

    fn text(&self) -> Result<Zeroizing<String>, VaultError> {
        let path = || self.path.clone();
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => VaultError::NoKeyFile { path: path() },
            _ => VaultError::Unreadable { path: path(), why: error.to_string() },
        };
        let about = fs::metadata(&self.path).map_err(failed)?;
        // A pipe would be waited for, and a device may have no end.
        if !about.is_file() {
            let why = "it is no regular file".to_owned();
            return Err(VaultError::Unreadable { path: path(), why });
        }
        let mode = about.permissions().mode();
        // A service manager sets its own modes, and its folder is closed.
        if mode & 0o077 != 0 && self.kind != PlaceKind::Credential {
            return Err(VaultError::Exposed { path: path(), mode: mode & 0o777 });
        }
        fs::read_to_string(&self.path).map(Zeroizing::new).map_err(failed)
    }
}

/// The path without links, as far as it exists.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => whole(above).join(name),
        _ => path.to_path_buf(),
    })
}

struct VaultKey {
    id: String,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// Every key of a file. No `Debug`: it holds them.
pub struct VaultKeys(Vec<VaultKey>);

impl VaultKeys {
    /// Reads the file; it has to lie outside the home, so that a copied home does not carry it.
    pub fn read(place: &KeyPlace, home: &Path) -> Result<Self, VaultError> {
        if whole(&place.path).starts_with(whole(home)) {
            return Err(VaultError::Inside { path: place.path.clone() });
        }
        let keys = Self::parse(&place.path, &place.text()?)?;
        match keys.0.is_empty() {
            true => Err(VaultError::Empty { path: place.path.clone() }),
            false => Ok(keys),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, VaultError> {
        let mut keys: Vec<VaultKey> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            // Nothing of the line is repeated: it holds a key.
            let malformed = || VaultError::Malformed { path: path.to_path_buf(), line: number };
            let (id, text) = line.trim().split_once(' ').ok_or_else(malformed)?;
            let key = BASE64_STANDARD.decode(text.trim()).map(Zeroizing::new);
            let key = key.map_err(|_| malformed())?;
            let bytes = <[u8; KEY_BYTES]>::try_from(key.as_slice()).map_err(|_| malformed())?;
            if keys.iter().any(|known| known.id == id) {
                return Err(malformed());
            }
            // Whoever could read the file by some way is not shown it.
            skep_scrub::known().add([Secret::new(format!("vault-key.{id}"), text.trim())]);
            keys.push(VaultKey { id: id.to_owned(), bytes: Zeroizing::new(bytes) });
        }
        Ok(Self(keys))
    }

    pub(super) fn newest(&self) -> Option<(&str, &[u8; KEY_BYTES])> {
        self.0.last().map(|key| (key.id.as_str(), &*key.bytes))
    }

    pub(super) fn find(&self, id: &str) -> Option<&[u8; KEY_BYTES]> {
        self.0.iter().find(|key| key.id == id).map(|key| &*key.bytes)
    }
}
