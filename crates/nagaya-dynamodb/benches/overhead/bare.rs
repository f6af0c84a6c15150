//! The same calls through the bare SDK: equal requests for equal results, including the item that a condition failed on and
//! the consumed capacity.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context as _, ensure};
use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Config, Credentials, Region, retry::RetryConfig, timeout::TimeoutConfig},
    types::{AttributeValue, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure, TransactWriteItem},
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use nagaya_dynamodb::Options;

use crate::{NOTE, QUERIED};

pub(crate) struct Bare {
    client: Client,
    table: String,
}

type Attributes = HashMap<String, AttributeValue>;

impl Bare {
    /// A client with the engine's settings.
    pub(crate) fn open(endpoint: &str, table: &str, options: &Options) -> Self {
        let http = Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .pool_idle_timeout(Duration::from_secs(20))
            .build_https();
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(options.call_timeout)
            .operation_attempt_timeout(options.attempt_timeout)
            .connect_timeout(options.attempt_timeout)
            .build();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .endpoint_url(endpoint)
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
            .retry_config(RetryConfig::standard().with_max_attempts(options.max_attempts))
            .timeout_config(timeouts)
            .build();
        Bare { client: Client::from_conf(config), table: table.to_owned() }
    }

    pub(crate) async fn get(&self, partition: &str, sort: &str) -> anyhow::Result<Attributes> {
        let call = self.client.get_item().table_name(&self.table).consistent_read(true);
        let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = call.key("PK", text(partition)).key("SK", text(sort)).send().await?;
        answer.item.context("it is not there")
    }

    pub(crate) async fn create(&self, partition: &str, sort: &str) -> anyhow::Result<()> {
        let call = self.client.put_item().table_name(&self.table).set_item(Some(item(partition, sort)));
        let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let call = call.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        call.condition_expression("attribute_not_exists(PK)").send().await?;
        Ok(())
    }

    pub(crate) async fn query(&self, partition: &str, start: &str) -> anyhow::Result<Vec<Attributes>> {
        let call = self.client.query().table_name(&self.table).consistent_read(true);
        let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let call = call.key_condition_expression("PK = :partition AND begins_with(SK, :start)");
        let call = call.expression_attribute_values(":partition", text(partition));
        let answer = call.expression_attribute_values(":start", text(start)).send().await?;
        let items = answer.items.unwrap_or_default();
        ensure!(items.len() == QUERIED, "{} items instead of {QUERIED}", items.len());
        Ok(items)
    }

    pub(crate) async fn set(&self, partitions: [&str; 3], sort: &str) -> anyhow::Result<()> {
        let mut call = self.client.transact_write_items().return_consumed_capacity(ReturnConsumedCapacity::Total);
        for partition in partitions {
            let put = Put::builder().table_name(&self.table).set_item(Some(item(partition, sort)));
            let put = put.condition_expression("attribute_not_exists(PK)");
            let put =
                put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld).build()?;
            call = call.transact_items(TransactWriteItem::builder().put(put).build());
        }
        call.send().await?;
        Ok(())
    }
}

/// The same item as through the engine.
fn item(partition: &str, sort: &str) -> Attributes {
    Attributes::from([
        ("PK".to_owned(), text(partition)),
        ("SK".to_owned(), text(sort)),
        ("GSI1PK".to_owned(), text("STATUS#open")),
        ("GSI1SK".to_owned(), text(sort)),
        ("type".to_owned(), text("order")),
        ("version".to_owned(), AttributeValue::N("1".to_owned())),
        ("total".to_owned(), AttributeValue::N("4200".to_owned())),
        ("open".to_owned(), AttributeValue::Bool(true)),
        ("createdAt".to_owned(), text("2026-11-15T10:00:00Z")),
        ("note".to_owned(), AttributeValue::S("x".repeat(NOTE))),
    ])
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
