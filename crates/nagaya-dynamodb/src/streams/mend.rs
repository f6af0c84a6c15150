//! DynamoDB Local tells of an empty map in a change as `{}`, without its type, and the SDK does not read that. Without this one
//! such change would be in the way of all that follow.

use aws_sdk_dynamodbstreams::{
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::BeforeDeserializationInterceptorContextMut},
    error::BoxError,
};
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Map, Value as Json, json};

/// Gives empty maps their type back, in answers of servers that are not AWS.
#[derive(Debug)]
pub(crate) struct Mend;

impl Intercept for Mend {
    fn name(&self) -> &'static str {
        "empty maps have a type"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        let body = response.take_body();
        let whole = stream::once(async move {
            let body = body.collect().await?.to_bytes();
            Ok::<_, BoxError>(Frame::data(mended(body)))
        });
        *response.body_mut() = SdkBody::from_body_1_x(StreamBody::new(whole));
        Ok(())
    }
}

fn mended(body: Bytes) -> Bytes {
    // Nearly all have nothing to mend.
    if !body.windows(3).any(|three| three == b":{}") {
        return body;
    }
    let Ok(mut answer) = serde_json::from_slice::<Json>(&body) else { return body };
    for record in answer.get_mut("Records").and_then(Json::as_array_mut).into_iter().flatten() {
        for image in ["NewImage", "OldImage"] {
            if let Some(Json::Object(image)) = record.get_mut("dynamodb").and_then(|change| change.get_mut(image)) {
                mend_all(image);
            }
        }
    }
    Bytes::from(answer.to_string())
}

fn mend_all(attributes: &mut Map<String, Json>) {
    attributes.values_mut().for_each(mend);
}

fn mend(value: &mut Json) {
    let Json::Object(typed) = value else { return };
    if typed.is_empty() {
        *value = json!({ "M": {} });
    } else if let Some(Json::Object(inner)) = typed.get_mut("M") {
        mend_all(inner);
    } else if let Some(Json::Array(inner)) = typed.get_mut("L") {
        inner.iter_mut().for_each(mend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_maps_get_their_type_back_and_nothing_else_changes() {
        let image = |empty: Json| {
            json!({
                "PK": { "S": "\":{}" },
                "M": empty,
                "typed": { "M": {} },
                "inner": { "M": { "M": empty, "L": { "L": [] } } },
                "list": { "L": [empty, { "L": [empty] }] },
            })
        };
        let answer = |empty: Json| {
            json!({
                "NextShardIterator": "next",
                "Records": [{ "dynamodb": { "Keys": {}, "NewImage": image(empty.clone()), "OldImage": image(empty) } }],
            })
        };
        let read = mended(Bytes::from(answer(json!({})).to_string()));
        assert_eq!(serde_json::from_slice::<Json>(&read).expect("JSON"), answer(json!({ "M": {} })));
        let other = Bytes::from_static(b"no JSON :{}");
        assert_eq!(mended(other.clone()), other);
    }
}
