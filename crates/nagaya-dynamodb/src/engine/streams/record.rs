//! Stream records as change records of the port.

use aws_sdk_dynamodbstreams::types::{AttributeValue, Identity, Record};
use nagaya_store::{ChangeCause, ChangeRecord, Error, Item, KeySchema, Value};

use crate::engine::convert::from_attribute_value;

/// A change record, with its sequence number as the server writes it.
pub(super) struct DecodedRecord {
    pub(super) sequence_number: String,
    /// The approximate time of the write, in seconds since 1970.
    pub(super) written_at: Option<i64>,
    pub(super) record: ChangeRecord,
}

/// Decodes a record.
pub(super) fn decode(schema: &KeySchema, record: Record) -> Result<DecodedRecord, Error> {
    let cause =
        if record.user_identity().is_some_and(is_ttl_deletion) { ChangeCause::Expiry } else { ChangeCause::Write };
    let stored = record.dynamodb.ok_or_else(|| Error::engine("the server sent a change without content"))?;
    let sequence_number = stored.sequence_number;
    let sequence_number =
        sequence_number.ok_or_else(|| Error::engine("the server sent a change without a sequence number"))?;
    let sequence = sequence_number
        .parse()
        .map_err(|_| Error::engine(format!("the server sent `{sequence_number}` as a sequence number")))?;
    let keys = stored.keys.map(to_item).transpose()?.unwrap_or_default();
    let key = schema.key_of(&keys).ok_or_else(|| Error::engine("the server sent a change without a key"))?;
    let old = stored.old_image.map(to_item).transpose()?;
    let new = stored.new_image.map(to_item).transpose()?;
    let written_at = stored.approximate_creation_date_time.map(|instant| instant.secs());
    Ok(DecodedRecord { sequence_number, written_at, record: ChangeRecord { key, old, new, cause, sequence } })
}

/// Whether the service deleted the item because it had expired.
fn is_ttl_deletion(identity: &Identity) -> bool {
    identity.r#type() == Some("Service") && identity.principal_id() == Some("dynamodb.amazonaws.com")
}

from_attribute_value!(AttributeValue);

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::types::StreamRecord;

    use super::*;

    fn record(number: &str, identity: Option<Identity>) -> Record {
        let keys =
            [("PK", "p"), ("SK", "s")].map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
        let stored = StreamRecord::builder()
            .set_keys(Some(keys.clone().into()))
            .set_old_image(Some(keys.into()))
            .sequence_number(number)
            .build();
        Record::builder().dynamodb(stored).set_user_identity(identity).build()
    }

    fn decode(record: Record) -> Result<DecodedRecord, Error> {
        super::decode(&KeySchema::strings("PK", "SK"), record)
    }

    #[test]
    fn a_deletion_by_the_service_is_an_expiry() {
        let identity = |kind: &str, who: &str| Some(Identity::builder().r#type(kind).principal_id(who).build());
        let causes = [
            (None, ChangeCause::Write),
            (identity("Service", "dynamodb.amazonaws.com"), ChangeCause::Expiry),
            (identity("Service", "other.amazonaws.com"), ChangeCause::Write),
            (identity("User", "dynamodb.amazonaws.com"), ChangeCause::Write),
        ];
        for (identity, cause) in causes {
            assert_eq!(decode(record("1", identity)).expect("a record").record.cause, cause);
        }
    }

    #[test]
    fn a_sequence_number_that_is_too_large_is_an_error() {
        let largest = u128::MAX.to_string();
        assert_eq!(decode(record(&largest, None)).expect("a record").record.sequence, u128::MAX);
        let error = decode(record(&format!("{largest}0"), None)).err().expect("too large");
        assert_eq!(error.code(), "engine");
    }
}
