//! One value, sealed with XChaCha20-Poly1305. It opens with its key, for its owner and under its
//! name alone: a row that is moved to another place is as good as none.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

use super::keys::KEY_BYTES;
use crate::random;

const NONCE_BYTES: usize = 24;

/// The nonce, then the sealed bytes.
pub(super) fn seal(key: &[u8; KEY_BYTES], owner: i64, name: &str, value: &str) -> Option<Vec<u8>> {
    let nonce = random::bytes::<NONCE_BYTES>();
    let bound = associated(owner, name);
    let payload = Payload { msg: value.as_bytes(), aad: &bound };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(nonce), payload).ok()?;
    Some([nonce.as_slice(), &sealed].concat())
}

/// Nothing where the key, the owner, the name or any byte is another one.
pub(super) fn open(
    key: &[u8; KEY_BYTES],
    owner: i64,
    name: &str,
    sealed: &[u8],
) -> Option<SecretString> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let bound = associated(owner, name);
    let payload = Payload { msg: sealed, aad: &bound };
    let opened = XChaCha20Poly1305::new(key.into()).decrypt(&XNonce::from(*nonce), payload).ok()?;
    let opened = Zeroizing::new(opened);
    std::str::from_utf8(&opened).ok().map(SecretString::from)
}

/// The owner has always eight bytes: no two pairs of owner and name give the same.
fn associated(owner: i64, name: &str) -> Vec<u8> {
    [&owner.to_be_bytes(), name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn vault_a_sealed_value_opens_in_its_own_place_alone() {
        let (key, other) = ([7; KEY_BYTES], [8; KEY_BYTES]);
        let sealed = seal(&key, 3, "TOKEN", "a value").unwrap_or_default();
        assert_eq!(sealed.len(), NONCE_BYTES + "a value".len() + 16);
        let read = |key, owner, name, sealed: &[u8]| {
            open(key, owner, name, sealed).map(|value| value.expose_secret().to_owned())
        };
        assert_eq!(read(&key, 3, "TOKEN", &sealed).as_deref(), Some("a value"));
        assert_eq!(read(&other, 3, "TOKEN", &sealed), None);
        assert_eq!(read(&key, 4, "TOKEN", &sealed), None);
        assert_eq!(read(&key, 3, "TOKEN2", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(read(&key, 3, "TOKEN", &sealed[..length]), None, "{length}");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(read(&key, 3, "TOKEN", &changed), None, "{at}");
        }
        let again = seal(&key, 3, "TOKEN", "a value").unwrap_or_default();
        assert_ne!(again, sealed, "a nonce is used once");
    }
}
