//! Writes.
//!
//! # When a response is lost
//!
//! The server may have carried out a request whose response never arrived. Such an ambiguous request may be sent again
//! only if it is idempotent, or if the server detects the repetition.
//!
//! - A transaction carries a client request token, made by the SDK for each call and kept for all of its attempts. The
//!   server detects the repetition, so it is retried. A second identical call has another token, and is carried out.
//! - A single action that is idempotent and has no condition (a put, a delete, an update that sets values) is retried. It
//!   may overwrite a write that came in between, as if that one had come first. Callers who mind use a condition.
//! - Any other single action is not retried. An increment would count twice. A create would fail on its own item, or
//!   create an item again that another writer has deleted. A transaction as second attempt would not help: its token does
//!   not cover the first attempt. The stored item does not show which of two identical writes made it. So the call ends with
//!   [`ErrorKind::OutcomeUnknown`]; the caller knows the version or id of the write, and can read and decide.
//!
//! Rejections (throttling, a conflict with a transaction, a refused connection) are not ambiguous: nothing has happened,
//! and all of them are retried. But when an attempt was ambiguous and a later one is rejected, the call ends as
//! [`ErrorKind::OutcomeUnknown`] too.
//!
//! With [`SingleWriteMode::Transaction`] every single action is sent as a transaction, which avoids the error. It is not the default: each
//! write costs twice as much, and the response does not contain the updated item, while lost responses are rare.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::{ReturnConsumedCapacity, ReturnValue},
};
use nagaya_store::{Error, ErrorKind, FailedCondition, Item, WriteAction, WriteOutcome, WriteSet, limits};

use super::{
    Dynamodb,
    convert::{self, Attributes, set_condition},
    error,
    meter::Call,
    options::SingleWriteMode,
    read, retry, transact,
    write_plan::{FailureMeaning, ItemRequest, PlannedWrite},
};
use crate::expression::Placeholders;

/// How often a write starts again because other writers change the item that it found.
pub(crate) const MAX_CONFLICT_RETRIES: usize = 8;

pub(crate) async fn write(store: &Dynamodb, set: WriteSet) -> Result<WriteOutcome, Error> {
    limits::check_write_set(&set)?;
    if set.actions().len() > 1 && !store.options.transactions {
        return Err(ErrorKind::Unsupported("write several actions in one set").into());
    }
    let mut plans: Vec<PlannedWrite> = Vec::with_capacity(set.actions().len());
    for write in set.into_actions() {
        let table = store.table(&write.table).await?;
        let plan = PlannedWrite::new(table, write)?;
        let same = |other: &PlannedWrite| other.table.name == plan.table.name && other.key == plan.key;
        if plans.iter().any(same) {
            let (key, table) = (&plan.key, &plan.write.table);
            return Err(Error::invalid(format!("the write set has two actions for `{key}` of `{table}`")));
        }
        plans.push(plan);
    }
    match (plans.pop(), plans.is_empty()) {
        (Some(plan), true) => write_single(store, plan).await,
        (last, _) => {
            plans.extend(last);
            transact::write(store, &plans).await?;
            Ok(WriteOutcome::default())
        }
    }
}

/// Writes a set of one action.
async fn write_single(store: &Dynamodb, plan: PlannedWrite) -> Result<WriteOutcome, Error> {
    if matches!(plan.write.action, WriteAction::ConditionCheck { .. }) {
        return check(store, &plan).await;
    }
    if store.options.single_write_mode == SingleWriteMode::Transaction
        && store.options.transactions
        && !plan.is_idempotent()
    {
        let plans = [plan];
        transact::write(store, &plans).await?;
        let [plan] = plans;
        let item = match plan.write.action {
            WriteAction::Put { item } => Some(item),
            // The update has happened, so a failed read must not look like a failed write.
            WriteAction::Update { .. } => read::get_stored(store, &plan.table, &plan.key)
                .await
                .map_err(|error| Error::outcome_unknown(error.to_string()))?,
            WriteAction::Delete { .. } | WriteAction::ConditionCheck { .. } => None,
        };
        return Ok(WriteOutcome { item });
    }
    let now = store.options.clock.seconds();
    for _ in 0..MAX_CONFLICT_RETRIES {
        let found = match send(store, &plan, plan.first_request(now)).await? {
            SendOutcome::Written(item) => return Ok(WriteOutcome { item }),
            SendOutcome::ConditionFailed(None) if !store.options.returns_item_on_failed_condition => {
                read::get_stored(store, &plan.table, &plan.key).await?
            }
            SendOutcome::ConditionFailed(found) => found,
        };
        match plan.on_failure(found, now)? {
            FailureMeaning::ConditionFailed(found) => return Err(condition_failed(found)),
            FailureMeaning::SendInstead(request) => {
                if let SendOutcome::Written(item) = send(store, &plan, *request).await? {
                    return Ok(WriteOutcome { item });
                }
            }
        }
    }
    Err(ErrorKind::Busy.into())
}

/// A set that is only a check is a consistent read, at half the price of a transaction.
async fn check(store: &Dynamodb, plan: &PlannedWrite) -> Result<WriteOutcome, Error> {
    let now = store.options.clock.seconds();
    let found = read::get_stored(store, &plan.table, &plan.key).await?;
    let found = found.filter(|item| !plan.table.spec.is_expired(item, now));
    let nothing = Item::new();
    match &plan.write.condition {
        Some(condition) if !condition.is_satisfied_by(found.as_ref().unwrap_or(&nothing)) => {
            Err(condition_failed(found))
        }
        _ => Ok(WriteOutcome::default()),
    }
}

fn condition_failed(current: Option<Item>) -> Error {
    ErrorKind::ConditionFailed(vec![FailedCondition { action: 0, current }]).into()
}

/// The result of a single action.
enum SendOutcome {
    /// The item after the action.
    Written(Option<Item>),
    /// The condition failed on this item.
    ConditionFailed(Option<Item>),
}

async fn send(store: &Dynamodb, plan: &PlannedWrite, request: ItemRequest) -> Result<SendOutcome, Error> {
    let ItemRequest { action, condition } = request;
    let mut placeholders = Placeholders::default();
    let schema = &plan.table.spec.key;
    let condition = condition.as_ref().and_then(|condition| placeholders.condition(condition, schema));
    let client = if plan.is_idempotent() { &store.client } else { &store.once };
    let (table, key) = (&plan.table.name, Some(convert::to_key(schema, &plan.key)));
    match action {
        WriteAction::Put { item } => {
            let call = client.put_item().table_name(table).set_item(Some(convert::to_attributes(item.clone())));
            let call = set_condition!(call, condition, placeholders);
            let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total).send();
            match retry::send_noting_ambiguity(call).await {
                (Ok(response), _) => store.meter.count_response(Call::Put, response.consumed_capacity.as_slice()),
                (Err(failure), ambiguous) => return failure_outcome(store, plan, failure, ambiguous),
            }
            Ok(SendOutcome::Written(Some(item)))
        }
        WriteAction::Update { update, .. } => {
            let call = client.update_item().table_name(table).set_key(key);
            let call = call.set_update_expression(placeholders.update(&update)).return_values(ReturnValue::AllNew);
            let call = set_condition!(call, condition, placeholders);
            let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total).send();
            let response = match retry::send_noting_ambiguity(call).await {
                (Ok(response), _) => response,
                (Err(failure), ambiguous) => return failure_outcome(store, plan, failure, ambiguous),
            };
            store.meter.count_response(Call::Update, response.consumed_capacity.as_slice());
            Ok(SendOutcome::Written(response.attributes.map(convert::to_item).transpose()?))
        }
        WriteAction::Delete { .. } => {
            let call = client.delete_item().table_name(table).set_key(key);
            let call = set_condition!(call, condition, placeholders);
            let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total).send();
            match retry::send_noting_ambiguity(call).await {
                (Ok(response), _) => store.meter.count_response(Call::Delete, response.consumed_capacity.as_slice()),
                (Err(failure), ambiguous) => return failure_outcome(store, plan, failure, ambiguous),
            }
            Ok(SendOutcome::Written(None))
        }
        WriteAction::ConditionCheck { .. } => Err(Error::engine("a single check is not sent")),
    }
}

/// The outcome of a single action that failed.
fn failure_outcome<E>(
    store: &Dynamodb,
    plan: &PlannedWrite,
    failure: SdkError<E, HttpResponse>,
    ambiguous: bool,
) -> Result<SendOutcome, Error>
where
    E: ConditionFailure + ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match failure.as_service_error().and_then(ConditionFailure::found) {
        Some(found) => Ok(SendOutcome::ConditionFailed(found.cloned().map(convert::to_item).transpose()?)),
        None => Err(store.write_error(&plan.write.table, failure, ambiguous)),
    }
}

/// An error that may be a failed condition.
trait ConditionFailure {
    /// The item that the condition failed on, if it is that error.
    fn found(&self) -> Option<Option<&Attributes>>;
}

macro_rules! condition_failure {
    ($error:ident) => {
        impl ConditionFailure for $error {
            fn found(&self) -> Option<Option<&Attributes>> {
                match self {
                    $error::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                }
            }
        }
    };
}

condition_failure!(PutItemError);
condition_failure!(UpdateItemError);
condition_failure!(DeleteItemError);

impl Dynamodb {
    /// The error of a failed write. It may have happened in this attempt or, if `ambiguous`, in an earlier one.
    pub(crate) fn write_error<E>(&self, table: &str, failure: SdkError<E, HttpResponse>, ambiguous: bool) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        if ambiguous || error::is_ambiguous(&failure) {
            self.meter.count(|metrics| metrics.unanswered += 1);
            return Error::outcome_unknown(error::describe(&failure));
        }
        self.call_error(table, failure)
    }
}
