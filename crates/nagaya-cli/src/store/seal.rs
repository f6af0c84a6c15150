//! Sealing keys for a backup: XChaCha20-Poly1305, with a key that comes from a passphrase (Argon2id) or from a key file.
//!
//! Sealed keys are one byte that says where the key comes from, the salt, the nonce, the three costs of Argon2, and the sealed
//! text. They are bound to the id of their backup, so that they open in no other.

use anyhow::{Context as _, bail};
use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};

/// What keys are sealed with.
pub(super) enum Secret {
    Passphrase(Vec<u8>),
    KeyFile(Vec<u8>),
}

impl Secret {
    fn kind(&self) -> u8 {
        match self {
            Secret::Passphrase(_) => 1,
            Secret::KeyFile(_) => 2,
        }
    }

    fn name(kind: u8) -> &'static str {
        if kind == 1 { "a passphrase" } else { "a key file" }
    }
}

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
/// Kibibytes, passes and lanes of Argon2: a guess costs 64 MiB and a good part of a second.
const ARGON2_COSTS: [u32; 3] = [64 * 1024, 3, 1];
/// What a file may ask for: a damaged one must not take all memory.
const MAX_COSTS: [u32; 3] = [1024 * 1024, 64, 16];
/// Bytes of the header before the ciphertext.
const HEAD_BYTES: usize = 1 + SALT_BYTES + NONCE_BYTES + 12;

/// Seals a text for the backup with this id.
pub(super) fn seal(secret: &Secret, id: [u8; 16], text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut random = [0; SALT_BYTES + NONCE_BYTES];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    let mut head = vec![secret.kind()];
    head.extend(random);
    head.extend(ARGON2_COSTS.iter().flat_map(|cost| cost.to_be_bytes()));
    let (cipher, nonce, bound) = cipher(secret, id, &head)?;
    let sealed =
        cipher.encrypt(&nonce, Payload { msg: text, aad: &bound }).map_err(|_| anyhow::anyhow!("no sealing"))?;
    head.extend(sealed);
    Ok(head)
}

/// Opens what was sealed for the backup with this id.
pub(super) fn unseal(secret: &Secret, id: [u8; 16], sealed: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (head, text) = sealed.split_at_checked(HEAD_BYTES).context("the sealed keys are cut off")?;
    if head[0] != secret.kind() {
        bail!("the keys are sealed with {}, not with {}", Secret::name(head[0]), Secret::name(secret.kind()));
    }
    let (cipher, nonce, bound) = cipher(secret, id, head)?;
    let opened = cipher.decrypt(&nonce, Payload { msg: text, aad: &bound });
    opened.map_err(|_| {
        anyhow::anyhow!(
            "the keys do not open: this is another {} than they were sealed with",
            match secret {
                Secret::Passphrase(_) => "passphrase",
                Secret::KeyFile(_) => "key file",
            }
        )
    })
}

/// The cipher, the nonce, and what the sealed text is bound to.
fn cipher(secret: &Secret, id: [u8; 16], head: &[u8]) -> anyhow::Result<(XChaCha20Poly1305, XNonce, Vec<u8>)> {
    let cut = || "the sealed keys are cut off";
    let salt = head.get(1..1 + SALT_BYTES).with_context(cut)?;
    let nonce: [u8; NONCE_BYTES] = head
        .get(1 + SALT_BYTES..1 + SALT_BYTES + NONCE_BYTES)
        .and_then(|nonce| nonce.try_into().ok())
        .with_context(cut)?;
    let costs = head.get(1 + SALT_BYTES + NONCE_BYTES..HEAD_BYTES).with_context(cut)?;
    let key = match secret {
        Secret::Passphrase(passphrase) => derive_key(passphrase, salt, costs)?,
        Secret::KeyFile(bytes) => {
            let mut hasher = blake3::Hasher::new_derive_key("nagaya 2026 keys in a backup, sealed with a key file");
            hasher.update(salt).update(bytes);
            *hasher.finalize().as_bytes()
        }
    };
    Ok((XChaCha20Poly1305::new(&key.into()), XNonce::from(nonce), [head, &id].concat()))
}

fn derive_key(passphrase: &[u8], salt: &[u8], costs: &[u8]) -> anyhow::Result<[u8; 32]> {
    let mut read = [0; 3];
    for (cost, bytes) in read.iter_mut().zip(costs.as_chunks::<4>().0) {
        *cost = u32::from_be_bytes(*bytes);
    }
    if read.iter().zip(MAX_COSTS).any(|(cost, most)| *cost > most) {
        bail!("the sealed keys ask for more memory or time than they can need: they are damaged");
    }
    let [memory, passes, lanes] = read;
    let refused = |error: argon2::Error| anyhow::anyhow!("the sealed keys are damaged: {error}");
    let params = Params::new(memory, passes, lanes, Some(32)).map_err(refused)?;
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase, salt, &mut key)
        .map_err(refused)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_opens_the_keys_of_the_same_backup() -> anyhow::Result<()> {
        let secrets = [
            Secret::Passphrase(b"correct horse".to_vec()),
            Secret::Passphrase(b"correct horsf".to_vec()),
            Secret::KeyFile(vec![7; 32]),
            Secret::KeyFile(vec![8; 32]),
        ];
        for (nth, secret) in secrets.iter().enumerate() {
            let sealed = seal(secret, [1; 16], b"the keys")?;
            assert!(!sealed.windows(8).any(|part| part == b"the keys"));
            assert_eq!(unseal(secret, [1; 16], &sealed)?, b"the keys");
            assert!(unseal(secret, [2; 16], &sealed).is_err(), "another backup");
            for (other, secret) in secrets.iter().enumerate().filter(|(other, _)| *other != nth) {
                assert!(unseal(secret, [1; 16], &sealed).is_err(), "{nth} and {other}");
            }
        }
        Ok(())
    }

    #[test]
    fn every_flipped_bit_is_noticed() -> anyhow::Result<()> {
        let secret = Secret::KeyFile(vec![7; 32]);
        let sealed = seal(&secret, [1; 16], b"the keys")?;
        for at in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(unseal(&secret, [1; 16], &flipped).is_err(), "bit {at}");
        }
        assert!(unseal(&secret, [1; 16], &sealed[..20]).is_err());
        // A damaged cost is refused before it takes memory.
        let secret = Secret::Passphrase(b"correct horse".to_vec());
        let mut sealed = seal(&secret, [1; 16], b"the keys")?;
        sealed[1 + SALT_BYTES + NONCE_BYTES] = 255;
        assert!(unseal(&secret, [1; 16], &sealed).is_err());
        Ok(())
    }
}
