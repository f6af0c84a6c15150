//! Writing.
//!
//! # When an answer is lost
//!
//! A request may have been carried out though its answer never came. Sending it again is then right only if doing it
//! twice is the same as doing it once, or if the server notices.
//!
//! - A transaction carries a token (one for each call, made by the SDK; the same on each attempt of that call): the server
//!   notices. It is repeated. A second identical call by the user has another token, and is done.
//! - A single action without a condition that gives the same item however often it is done (a put, a delete, an update
//!   that sets values) is repeated. A write by another that comes in between is then overwritten, as if it had come
//!   before: whoever minds has a condition.
//! - Any other single action is not. An increment would count twice; a create would fail on its own item, or even make an
//!   item again that somebody has deleted in between. Sending the second attempt as a transaction would not help: its
//!   token knows nothing of the first. Nor can the stored item tell whose it is, when two do the same. So the call ends
//!   with [`ErrorKind::Unanswered`], and whoever knows what the action meant (its version, its id) reads and decides.
//!
//! Refusals (throttling, a conflict with a transaction, nobody at the address) are not lost answers: nothing has happened,
//! and all of these are repeated. But a refusal of the second attempt does not say that the first has not happened: a call
//! that was once without an answer, and ends by being refused, ends as [`ErrorKind::Unanswered`] too.
//!
//! Sending every single action as a transaction would spare the error, and is possible ([`Lone::Token`]), but writes cost
//! twice as much then, and the server does not tell what an update made. So it is not what happens by default: answers are
//! lost once in a million, and paid for is every write.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::{ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use nagaya_store::{Action, Error, ErrorKind, Failed, Item, WriteSet, Written, limits};

use crate::{
    convert::{self, Attributes},
    engine::Dynamodb,
    error::{self, Failure},
    expression::Placeholders,
    meter::Call,
    options::Lone,
    plan::{Plan, Request, Verdict},
    read, retry, transact,
};

/// How often a write starts from the beginning because others change what it found.
pub(crate) const MOST_ROUNDS: usize = 8;

pub(crate) async fn write(store: &Dynamodb, set: WriteSet) -> Result<Written, Error> {
    limits::check_write_set(&set)?;
    if set.actions().len() > 1 && !store.options.transactions {
        return Err(ErrorKind::Unsupported("write several actions in one set").into());
    }
    let mut plans: Vec<Plan> = Vec::with_capacity(set.actions().len());
    for write in set.into_actions() {
        let table = store.table(&write.table).await?;
        let plan = Plan::new(table, write)?;
        let same = |other: &Plan| other.table.name == plan.table.name && other.key == plan.key;
        if plans.iter().any(same) {
            let (key, table) = (&plan.key, &plan.write.table);
            return Err(Error::invalid(format!("the write set has two actions for `{key}` of `{table}`")));
        }
        plans.push(plan);
    }
    match (plans.pop(), plans.is_empty()) {
        (Some(plan), true) => lone(store, plan).await,
        (last, _) => {
            plans.extend(last);
            transact::write(store, &plans).await?;
            Ok(Written::default())
        }
    }
}

/// Writes a set of one action.
async fn lone(store: &Dynamodb, plan: Plan) -> Result<Written, Error> {
    if matches!(plan.write.action, Action::Check { .. }) {
        return check(store, &plan).await;
    }
    if store.options.lone == Lone::Token && store.options.transactions && !plan.is_repeatable() {
        let plans = [plan];
        transact::write(store, &plans).await?;
        let [plan] = plans;
        let item = match plan.write.action {
            Action::Put { item } => Some(item),
            // It has happened: that it cannot be read does not undo it.
            Action::Update { .. } => read::get_stored(store, &plan.table, &plan.key)
                .await
                .map_err(|error| Error::unanswered(error.to_string()))?,
            Action::Delete { .. } | Action::Check { .. } => None,
        };
        return Ok(Written { item });
    }
    let now = store.options.clock.seconds();
    for _ in 0..MOST_ROUNDS {
        let found = match send(store, &plan, plan.first(now)).await? {
            Sent::Done(item) => return Ok(Written { item }),
            Sent::Refused(None) if !store.options.returns_found => {
                read::get_stored(store, &plan.table, &plan.key).await?
            }
            Sent::Refused(found) => found,
        };
        match plan.verdict(found, now)? {
            Verdict::Failed(found) => return Err(failed(found)),
            Verdict::Instead(request) => {
                if let Sent::Done(item) = send(store, &plan, *request).await? {
                    return Ok(Written { item });
                }
            }
        }
    }
    Err(ErrorKind::Busy.into())
}

/// A check that nothing is written with is a read: half the price of a transaction's, and as good.
async fn check(store: &Dynamodb, plan: &Plan) -> Result<Written, Error> {
    let now = store.options.clock.seconds();
    let found = read::get_stored(store, &plan.table, &plan.key).await?;
    let found = found.filter(|item| !plan.table.spec.is_expired(item, now));
    let nothing = Item::new();
    match &plan.write.condition {
        Some(condition) if !condition.holds(found.as_ref().unwrap_or(&nothing)) => Err(failed(found)),
        _ => Ok(Written::default()),
    }
}

fn failed(found: Option<Item>) -> Error {
    ErrorKind::ConditionFailed(vec![Failed { action: 0, found }]).into()
}

/// How a single action ended.
enum Sent {
    /// It happened; the item after it.
    Done(Option<Item>),
    /// The condition did not hold for this item.
    Refused(Option<Item>),
}

async fn send(store: &Dynamodb, plan: &Plan, request: Request) -> Result<Sent, Error> {
    let Request { action, condition } = request;
    let mut placeholders = Placeholders::default();
    let schema = &plan.table.spec.key;
    let condition = condition.as_ref().and_then(|condition| placeholders.condition(condition, schema));
    let client = if plan.is_repeatable() { &store.client } else { &store.once };
    let key = || Some(convert::to_key(schema, &plan.key));
    let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
    match action {
        Action::Put { item } => {
            let call = client
                .put_item()
                .table_name(&plan.table.name)
                .set_item(Some(convert::to_attributes(item.clone())))
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send();
            let (answer, doubt) = retry::doubted(call).await;
            match answer {
                Ok(answer) => store.meter.answered(Call::Put, answer.consumed_capacity.as_slice()),
                Err(failure) => return refused(store, plan, failure, doubt),
            }
            Ok(Sent::Done(Some(item)))
        }
        Action::Update { update, .. } => {
            let call = client
                .update_item()
                .table_name(&plan.table.name)
                .set_key(key())
                .set_update_expression(placeholders.update(&update))
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send();
            let (answer, doubt) = retry::doubted(call).await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(failure) => return refused(store, plan, failure, doubt),
            };
            store.meter.answered(Call::Update, answer.consumed_capacity.as_slice());
            Ok(Sent::Done(answer.attributes.map(convert::to_item).transpose()?))
        }
        Action::Delete { .. } => {
            let call = client
                .delete_item()
                .table_name(&plan.table.name)
                .set_key(key())
                .set_condition_expression(condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.into_values())
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send();
            let (answer, doubt) = retry::doubted(call).await;
            match answer {
                Ok(answer) => store.meter.answered(Call::Delete, answer.consumed_capacity.as_slice()),
                Err(failure) => return refused(store, plan, failure, doubt),
            }
            Ok(Sent::Done(None))
        }
        Action::Check { .. } => Err(Error::engine("a check is read, not sent")),
    }
}

/// What the failure of a single action means.
fn refused<E>(store: &Dynamodb, plan: &Plan, failure: SdkError<E, HttpResponse>, doubt: bool) -> Result<Sent, Error>
where
    E: Refusal + ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match failure.as_service_error().and_then(Refusal::found) {
        Some(found) => Ok(Sent::Refused(found.cloned().map(convert::to_item).transpose()?)),
        None => Err(store.failed_write(&plan.write.table, failure, doubt)),
    }
}

/// An error that may be a failed condition.
trait Refusal {
    /// The item that the condition did not hold for, if it is that error.
    fn found(&self) -> Option<Option<&Attributes>>;
}

impl Refusal for PutItemError {
    fn found(&self) -> Option<Option<&Attributes>> {
        match self {
            PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
            _ => None,
        }
    }
}

impl Refusal for UpdateItemError {
    fn found(&self) -> Option<Option<&Attributes>> {
        match self {
            UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
            _ => None,
        }
    }
}

impl Refusal for DeleteItemError {
    fn found(&self) -> Option<Option<&Attributes>> {
        match self {
            DeleteItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
            _ => None,
        }
    }
}

impl Dynamodb {
    /// The failure of a write, which may have happened all the same: in this attempt or, by the doubt, in an earlier one.
    pub(crate) fn failed_write<E>(&self, table: &str, failure: SdkError<E, HttpResponse>, doubt: bool) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        if doubt || error::is_unanswered(&failure) {
            self.meter.count(|metrics| metrics.unanswered += 1);
            return Error::unanswered(Failure::of(&failure));
        }
        self.failed(table, failure)
    }
}
