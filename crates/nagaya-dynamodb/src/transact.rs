//! Transactions: write sets of several actions.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::TransactWriteItemsError,
    types::{
        CancellationReason, ConditionCheck, Delete, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
        TransactWriteItem, Update,
    },
};
use nagaya_store::{Action, Error, ErrorKind, Failed};

use crate::{
    convert,
    engine::Dynamodb,
    error,
    expression::Placeholders,
    meter::Call,
    plan::{Plan, Request, Verdict},
    retry,
    write::MOST_ROUNDS,
};

/// Does all actions or none.
pub(crate) async fn write(store: &Dynamodb, plans: &[Plan]) -> Result<(), Error> {
    let now = store.options.clock.seconds();
    for _ in 0..MOST_ROUNDS {
        let first: Vec<Request> = plans.iter().map(|plan| plan.first(now)).collect();
        let Some(reasons) = send(store, plans, first.clone()).await? else { return Ok(()) };
        let mut second = first;
        let mut failed = Vec::new();
        for (at, (plan, reason)) in plans.iter().zip(reasons).enumerate() {
            if reason.code() != Some("ConditionalCheckFailed") {
                continue;
            }
            match plan.verdict(reason.item.map(convert::to_item).transpose()?, now)? {
                Verdict::Failed(found) => failed.push(Failed { action: at, found }),
                Verdict::Instead(request) => second[at] = *request,
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

/// Sends a transaction; the reasons against each action, if conditions did not hold.
async fn send(
    store: &Dynamodb,
    plans: &[Plan],
    requests: Vec<Request>,
) -> Result<Option<Vec<CancellationReason>>, Error> {
    let items = plans.iter().zip(requests).map(|(plan, request)| to_item(plan, request));
    let call = store
        .client
        .transact_write_items()
        .set_transact_items(Some(items.collect::<Result<_, _>>().map_err(Error::engine)?))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send();
    let (answer, doubt) = retry::doubted(call).await;
    let failure = match answer {
        Ok(answer) => {
            store.meter.answered(Call::Transact, answer.consumed_capacity());
            return Ok(None);
        }
        Err(failure) => failure,
    };
    match failure.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            let reasons = canceled.cancellation_reasons();
            match impossible(reasons) {
                Some(error) if doubt && matches!(error.kind(), ErrorKind::Busy) => {
                    Err(store.failed_write("", failure, doubt))
                }
                Some(error) => Err(error),
                None => Ok(Some(reasons.to_vec())),
            }
        }
        Some(TransactWriteItemsError::ResourceNotFoundException(_)) => {
            Err(store.failed_one_of(plans.iter().map(|plan| &plan.table), failure).await)
        }
        _ => Err(store.failed_write(plans.first().map_or("", |plan| &plan.write.table), failure, doubt)),
    }
}

/// The error that ends a transaction whatever its conditions; `None` when only conditions did not hold.
fn impossible(reasons: &[CancellationReason]) -> Option<Error> {
    let message = |reason: &CancellationReason| reason.message().unwrap_or("the server refuses an action").to_owned();
    let with = |code: &str| reasons.iter().find(|reason| reason.code() == Some(code));
    if let Some(reason) = with("ValidationError") {
        return Some(error::refused(&message(reason)));
    }
    if let Some(reason) = with("ItemCollectionSizeLimitExceeded") {
        return Some(Error::limit(message(reason)));
    }
    if with("ConditionalCheckFailed").is_some() {
        return None;
    }
    let other = reasons.iter().find(|reason| reason.code().is_some_and(|code| code != "None" && !error::is_busy(code)));
    Some(other.map_or_else(|| ErrorKind::Busy.into(), |reason| Error::engine(message(reason))))
}

fn to_item(plan: &Plan, request: Request) -> Result<TransactWriteItem, BuildError> {
    let Request { action, condition } = request;
    let mut placeholders = Placeholders::default();
    let (table, schema) = (&plan.table.name, &plan.table.spec.key);
    let key = || Some(convert::to_key(schema, &plan.key));
    let condition = condition.as_ref().and_then(|condition| placeholders.condition(condition, schema));
    let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
    let item = TransactWriteItem::builder();
    Ok(match action {
        Action::Put { item: put } => {
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(convert::to_attributes(put)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old);
            item.put(put.build()?)
        }
        Action::Update { update, .. } if !update.changes().is_empty() => {
            let update = Update::builder()
                .table_name(table)
                .set_key(key())
                .set_update_expression(placeholders.update(&update))
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old);
            item.update(update.build()?)
        }
        Action::Delete { .. } => {
            let delete = Delete::builder()
                .table_name(table)
                .set_key(key())
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old);
            item.delete(delete.build()?)
        }
        // An update that changes nothing is only asked whether the item is there.
        Action::Update { .. } | Action::Check { .. } => {
            let check = ConditionCheck::builder()
                .table_name(table)
                .set_key(key())
                .condition_expression(condition.unwrap_or_else(|| placeholders.always(schema)))
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old);
            item.condition_check(check.build()?)
        }
    }
    .build())
}
