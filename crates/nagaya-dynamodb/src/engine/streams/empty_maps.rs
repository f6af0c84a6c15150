//! DynamoDB Local sends an empty map in a stream record as `{}`, without its type, and the SDK cannot parse that. Without
//! this interceptor, one such record would block the stream.

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

/// Adds the missing type to empty maps in responses.
#[derive(Debug)]
pub(crate) struct EmptyMapTyper;

impl Intercept for EmptyMapTyper {
    fn name(&self) -> &'static str {
        "types for empty maps"
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
            Ok::<_, BoxError>(Frame::data(with_types(body)))
        });
        *response.body_mut() = SdkBody::from_body_1_x(StreamBody::new(whole));
        Ok(())
    }
}

fn with_types(body: Bytes) -> Bytes {
    // Most responses have no empty map.
    if !body.windows(3).any(|three| three == b":{}") {
        return body;
    }
    let Ok(mut response) = serde_json::from_slice::<Json>(&body) else { return body };
    for record in response.get_mut("Records").and_then(Json::as_array_mut).into_iter().flatten() {
        for image in ["NewImage", "OldImage"] {
            if let Some(Json::Object(image)) = record.get_mut("dynamodb").and_then(|change| change.get_mut(image)) {
                add_types_in(image);
            }
        }
    }
    Bytes::from(response.to_string())
}

fn add_types_in(attributes: &mut Map<String, Json>) {
    attributes.values_mut().for_each(add_type);
}

fn add_type(value: &mut Json) {
    let Json::Object(typed) = value else { return };
    if typed.is_empty() {
        *value = json!({ "M": {} });
    } else if let Some(Json::Object(inner)) = typed.get_mut("M") {
        add_types_in(inner);
    } else if let Some(Json::Array(inner)) = typed.get_mut("L") {
        inner.iter_mut().for_each(add_type);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_maps_change() {
        let image = |empty: Json| {
            json!({
                "PK": { "S": "\":{}" },
                "M": empty,
                "typed": { "M": {} },
                "inner": { "M": { "M": empty, "L": { "L": [] } } },
                "list": { "L": [empty, { "L": [empty] }] },
            })
        };
        let response = |empty: Json| {
            json!({
                "NextShardIterator": "next",
                "Records": [{ "dynamodb": { "Keys": {}, "NewImage": image(empty.clone()), "OldImage": image(empty) } }],
            })
        };
        let read = with_types(Bytes::from(response(json!({})).to_string()));
        assert_eq!(serde_json::from_slice::<Json>(&read).expect("JSON"), response(json!({ "M": {} })));
        let other = Bytes::from_static(b"no JSON :{}");
        assert_eq!(with_types(other.clone()), other);
    }
}
