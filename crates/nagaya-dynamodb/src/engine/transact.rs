//! Write sets of several actions, as transactions.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::TransactWriteItemsError,
    types::{CancellationReason, ConditionCheck, Delete, Put, ReturnConsumedCapacity, TransactWriteItem, Update},
};
use nagaya_store::{Error, ErrorKind, FailedCondition, WriteAction};

use super::{
    Dynamodb,
    convert::{self, set_condition},
    error,
    meter::Call,
    retry,
    write::MAX_CONFLICT_RETRIES,
    write_plan::{FailureMeaning, ItemRequest, PlannedWrite},
};
use crate::expression::Placeholders;

/// Carries out all actions or none.
pub(crate) async fn write(store: &Dynamodb, plans: &[PlannedWrite]) -> Result<(), Error> {
    let now = store.options.clock.seconds();
    for _ in 0..MAX_CONFLICT_RETRIES {
        let first: Vec<ItemRequest> = plans.iter().map(|plan| plan.first_request(now)).collect();
        let Some(reasons) = send(store, plans, first.clone()).await? else { return Ok(()) };
        let mut second = first;
        let mut failed = Vec::new();
        for (at, (plan, reason)) in plans.iter().zip(reasons).enumerate() {
            if reason.code() != Some("ConditionalCheckFailed") {
                continue;
            }
            match plan.on_failure(reason.item.map(convert::to_item).transpose()?, now)? {
                FailureMeaning::ConditionFailed(found) => failed.push(FailedCondition { action: at, current: found }),
                FailureMeaning::SendInstead(request) => second[at] = *request,
            }
        }
        if !failed.is_empty() {
            return Err(ErrorKind::ConditionFailed(failed).into());
        }
        if send(store, plans, second).await?.is_none() {
            return Ok(());
        }
    }
    Err(ErrorKind::Busy.into())
}

/// Sends a transaction; the cancellation reason of each action, if conditions failed.
async fn send(
    store: &Dynamodb,
    plans: &[PlannedWrite],
    requests: Vec<ItemRequest>,
) -> Result<Option<Vec<CancellationReason>>, Error> {
    let items = plans.iter().zip(requests).map(|(plan, request)| to_item(plan, request));
    let call = store
        .client
        .transact_write_items()
        .set_transact_items(Some(items.collect::<Result<_, _>>().map_err(Error::engine)?))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send();
    let (response, ambiguous) = retry::send_noting_ambiguity(call).await;
    let failure = match response {
        Ok(response) => {
            store.meter.count_response(Call::Transact, response.consumed_capacity());
            return Ok(None);
        }
        Err(failure) => failure,
    };
    match failure.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            let reasons = canceled.cancellation_reasons();
            match fatal_error(reasons) {
                Some(error) if ambiguous && matches!(error.kind(), ErrorKind::Busy) => {
                    Err(store.write_error("", failure, ambiguous))
                }
                Some(error) => Err(error),
                None => Ok(Some(reasons.to_vec())),
            }
        }
        Some(TransactWriteItemsError::ResourceNotFoundException(_)) => {
            Err(store.batch_error(plans.iter().map(|plan| &plan.table), failure).await)
        }
        _ => Err(store.write_error(plans.first().map_or("", |plan| &plan.write.table), failure, ambiguous)),
    }
}

/// The error that ends a transaction for good; `None` when only conditions failed.
fn fatal_error(reasons: &[CancellationReason]) -> Option<Error> {
    let message = |reason: &CancellationReason| reason.message().unwrap_or("the server rejects an action").to_owned();
    let with = |code: &str| reasons.iter().find(|reason| reason.code() == Some(code));
    if let Some(reason) = with("ValidationError") {
        return Some(error::rejected(&message(reason)));
    }
    if let Some(reason) = with("ItemCollectionSizeLimitExceeded") {
        return Some(Error::limit_exceeded(message(reason)));
    }
    if with("ConditionalCheckFailed").is_some() {
        return None;
    }
    let other = reasons.iter().find(|reason| reason.code().is_some_and(|code| code != "None" && !error::is_busy(code)));
    Some(other.map_or_else(|| ErrorKind::Busy.into(), |reason| Error::engine(message(reason))))
}

fn to_item(plan: &PlannedWrite, request: ItemRequest) -> Result<TransactWriteItem, BuildError> {
    let ItemRequest { action, condition } = request;
    let mut placeholders = Placeholders::default();
    let (table, schema) = (&plan.table.name, &plan.table.spec.key);
    let key = Some(convert::to_key(schema, &plan.key));
    let condition = condition.as_ref().and_then(|condition| placeholders.condition(condition, schema));
    let item = TransactWriteItem::builder();
    Ok(match action {
        WriteAction::Put { item: put } => {
            let put = Put::builder().table_name(table).set_item(Some(convert::to_attributes(put)));
            item.put(set_condition!(put, condition, placeholders).build()?)
        }
        WriteAction::Update { update, .. } if !update.changes().is_empty() => {
            let expression = placeholders.update(&update);
            let update = Update::builder().table_name(table).set_key(key).set_update_expression(expression);
            item.update(set_condition!(update, condition, placeholders).build()?)
        }
        WriteAction::Delete { .. } => {
            let delete = Delete::builder().table_name(table).set_key(key);
            item.delete(set_condition!(delete, condition, placeholders).build()?)
        }
        // An update without changes only checks that the item exists.
        WriteAction::Update { .. } | WriteAction::ConditionCheck { .. } => {
            let condition = condition.unwrap_or_else(|| placeholders.always(schema));
            let check = ConditionCheck::builder().table_name(table).set_key(key);
            item.condition_check(set_condition!(check, Some(condition), placeholders).build()?)
        }
    }
    .build())
}
