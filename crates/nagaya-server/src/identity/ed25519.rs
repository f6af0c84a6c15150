//! Public keys of Ed25519: whether a point can be a key at all.
//!
//! `ring` verifies with any point that it can decode. For a point of small order, anybody can make signatures that it accepts.

/// A number modulo 2^255 - 19, in sixteen limbs of 16 bits; limbs may be larger between reductions.
type Number = [i64; 16];

/// The constant of the curve, -121665/121666.
const D: Number = [
    0x78a3, 0x1359, 0x4dca, 0x75eb, 0xd8ab, 0x4141, 0x0a4d, 0x0070, 0xe898, 0x7779, 0x4079, 0x8cc7, 0xfe73, 0x2b6f,
    0x6cee, 0x5203,
];

const ONE: Number = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The y coordinates of all points of order 1, 2, 4 and 8, without the bit of the sign.
const SMALL_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

/// Whether 32 bytes are a usable public key: the canonical encoding of a point on the curve that is not of small order.
pub(super) fn is_public_key(bytes: &[u8]) -> bool {
    let Ok(mut y) = <[u8; 32]>::try_from(bytes) else { return false };
    y[31] &= 0x7f;
    let number = unpack(&y);
    pack(number) == y && !SMALL_ORDER.contains(&y) && is_on_curve(number)
}

/// Whether some x fits this y: x² = (y² - 1) / (dy² + 1). A quotient is a square if the product is one.
fn is_on_curve(y: Number) -> bool {
    let square = multiply(&y, &y);
    let (mut above, mut below) = (square, multiply(&D, &square));
    for at in 0..16 {
        above[at] -= ONE[at];
        below[at] += ONE[at];
    }
    // By Euler's criterion, a^((p - 1) / 2) is 1 for squares. y = ±1 (x = 0) is of small order and was refused before.
    pack(half_order_power(&multiply(&above, &below))) == pack(ONE)
}

/// a^((p - 1) / 2), whose exponent is 2^254 - 10.
fn half_order_power(a: &Number) -> Number {
    let mut power = *a;
    // The bits of the exponent from the second on, the highest first: all are 1 but those with the values 8 and 1.
    for bit in (0..=252).rev() {
        power = multiply(&power, &power);
        if bit != 3 && bit != 0 {
            power = multiply(&power, a);
        }
    }
    power
}

fn multiply(a: &Number, b: &Number) -> Number {
    let mut wide = [0_i64; 31];
    for (at, a) in a.iter().enumerate() {
        for (and, b) in b.iter().enumerate() {
            wide[at + and] += a * b;
        }
    }
    // 2^256 is 38 modulo 2^255 - 19.
    let mut product: Number = std::array::from_fn(|at| wide[at] + if at < 15 { 38 * wide[at + 16] } else { 0 });
    carry(&mut product);
    carry(&mut product);
    product
}

/// Moves what exceeds 16 bits into the next limb.
fn carry(number: &mut Number) {
    for at in 0..16 {
        let carried = number[at] >> 16;
        number[at] -= carried << 16;
        if at == 15 { number[0] += 38 * carried } else { number[at + 1] += carried }
    }
}

fn unpack(bytes: &[u8; 32]) -> Number {
    std::array::from_fn(|at| i64::from(bytes[2 * at]) + (i64::from(bytes[2 * at + 1]) << 8))
}

/// The canonical bytes of a number.
fn pack(mut number: Number) -> [u8; 32] {
    for _ in 0..3 {
        carry(&mut number);
    }
    // Subtracts the modulus while it fits.
    for _ in 0..2 {
        let mut less: Number = [0; 16];
        less[0] = number[0] - 0xffed;
        for at in 1..16 {
            let modulus = if at == 15 { 0x7fff } else { 0xffff };
            less[at] = number[at] - modulus - ((less[at - 1] >> 16) & 1);
            less[at - 1] &= 0xffff;
        }
        let is_negative = (less[15] >> 16) & 1 == 1;
        less[15] &= 0xffff;
        if !is_negative {
            number = less;
        }
    }
    let mut bytes = [0; 32];
    for (at, limb) in number.iter().enumerate() {
        let [low, high, ..] = limb.to_le_bytes();
        (bytes[2 * at], bytes[2 * at + 1]) = (low, high);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    #[test]
    fn keys_are_accepted_and_points_of_small_order_and_other_bytes_are_not() {
        for seed in 0..32 {
            let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed");
            assert!(is_public_key(key.public_key().as_ref()), "{seed}");
        }
        for mut y in SMALL_ORDER {
            assert!(!is_public_key(&y), "{y:02x?}");
            y[31] |= 0x80;
            assert!(!is_public_key(&y), "{y:02x?}");
        }
        // The modulus and one more: other encodings of 0 and 1.
        for first in [0xed, 0xee] {
            let mut y = SMALL_ORDER[2];
            y[0] = first;
            assert!(!is_public_key(&y), "{y:02x?}");
        }
        assert!(!is_public_key(&[1; 31]) && !is_public_key(&[]));
    }

    #[test]
    fn a_number_has_one_encoding_however_its_limbs_are() {
        let number = |first: i64, second: i64, last: i64| {
            let mut number = [0; 16];
            (number[0], number[1], number[15]) = (first, second, last);
            pack(number)
        };
        assert_eq!(number(0x1_0005, 0, 0), number(5, 1, 0));
        assert_eq!(number(-1, 1, 0), number(0xffff, 0, 0));
        // 2^256 is 38.
        assert_eq!(number(0, 0, 0x1_0000), number(38, 0, 0));
    }

    #[test]
    fn half_of_all_numbers_are_on_the_curve() {
        let points = (2..=201).filter(|number| {
            let mut y = [0; 32];
            y[0] = *number;
            is_public_key(&y)
        });
        let points = points.count();
        assert!((70..=130).contains(&points), "{points}");
        // The base point is on the curve: y = 4/5.
        let mut base = [0x66; 32];
        base[0] = 0x58;
        assert!(is_public_key(&base));
        // y = 2 is not.
        let mut y = [0; 32];
        y[0] = 2;
        assert!(!is_public_key(&y));
    }
}
