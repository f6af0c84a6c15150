//! Records of a stream, in the port's form.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::types::{AttributeValue, Identity, Record};
use nagaya_store::{Cause, ChangeRecord, Error, Item, KeySchema, Number, Value};

/// A record, with its sequence number as the server writes it.
pub(super) struct Read {
    pub(super) number: String,
    /// The second since 1970 at which it was written, about.
    pub(super) written: Option<i64>,
    pub(super) record: ChangeRecord,
}

/// A record in the port's form.
pub(super) fn read(schema: &KeySchema, record: Record) -> Result<Read, Error> {
    let cause = if record.user_identity().is_some_and(is_sweep) { Cause::Expiry } else { Cause::Write };
    let stored = record.dynamodb.ok_or_else(|| Error::engine("the server gave a change without content"))?;
    let number = stored.sequence_number.ok_or_else(|| Error::engine("the server gave a change without a number"))?;
    let sequence =
        number.parse().map_err(|_| Error::engine(format!("the server gave `{number}` as a sequence number")))?;
    let keys = stored.keys.map(to_item).transpose()?.unwrap_or_default();
    let key = schema.key_of(&keys).ok_or_else(|| Error::engine("the server gave a change without a key"))?;
    let old = stored.old_image.map(to_item).transpose()?;
    let new = stored.new_image.map(to_item).transpose()?;
    let written = stored.approximate_creation_date_time.map(|instant| instant.secs());
    Ok(Read { number, written, record: ChangeRecord { key, old, new, cause, sequence } })
}

/// Whether the service itself removed the item, because it had expired.
fn is_sweep(identity: &Identity) -> bool {
    identity.r#type() == Some("Service") && identity.principal_id() == Some("dynamodb.amazonaws.com")
}

fn to_item(attributes: HashMap<String, AttributeValue>) -> Result<Item, Error> {
    attributes.into_iter().map(|(name, value)| Ok((name, to_value(value)?))).collect()
}

/// The same as for the tables: the two SDKs have types of their own.
fn to_value(attribute: AttributeValue) -> Result<Value, Error> {
    Ok(match attribute {
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::Bool(flag) => Value::Boolean(flag),
        AttributeValue::N(text) => Value::Number(to_number(&text)?),
        AttributeValue::S(text) => Value::String(text.into()),
        AttributeValue::B(bytes) => Value::Binary(bytes.into_inner()),
        AttributeValue::L(values) => Value::List(values.into_iter().map(to_value).collect::<Result<_, Error>>()?),
        AttributeValue::M(values) => {
            let entries = values.into_iter().map(|(name, value)| Ok((name, to_value(value)?)));
            Value::Map(entries.collect::<Result<_, Error>>()?)
        }
        AttributeValue::Ss(all) => Value::StringSet(all.into_iter().collect()),
        AttributeValue::Ns(all) => Value::NumberSet(all.iter().map(|text| to_number(text)).collect::<Result<_, _>>()?),
        AttributeValue::Bs(all) => Value::BinarySet(all.into_iter().map(|bytes| bytes.into_inner()).collect()),
        other => return Err(Error::engine(format!("the server gave a value of an unknown kind: {other:?}"))),
    })
}

fn to_number(text: &str) -> Result<Number, Error> {
    text.parse().map_err(|cause| Error::engine(format!("the server gave `{text}` as a number: {cause}")))
}

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

    fn read(record: Record) -> Result<Read, Error> {
        super::read(&KeySchema::strings("PK", "SK"), record)
    }

    #[test]
    fn a_removal_by_the_service_is_an_expiry() {
        let identity = |kind: &str, who: &str| Some(Identity::builder().r#type(kind).principal_id(who).build());
        let causes = [
            (None, Cause::Write),
            (identity("Service", "dynamodb.amazonaws.com"), Cause::Expiry),
            (identity("Service", "other.amazonaws.com"), Cause::Write),
            (identity("User", "dynamodb.amazonaws.com"), Cause::Write),
        ];
        for (identity, cause) in causes {
            assert_eq!(read(record("1", identity)).expect("a record").record.cause, cause);
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_an_error() {
        let largest = u128::MAX.to_string();
        assert_eq!(read(record(&largest, None)).expect("a record").record.sequence, u128::MAX);
        let error = read(record(&format!("{largest}0"), None)).err().expect("too large");
        assert_eq!(error.code(), "engine");
    }
}
