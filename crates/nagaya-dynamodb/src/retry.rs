//! Which failures are tried again, and after how long.
//!
//! The SDK does the waiting (exponential, random), keeps the number of attempts and the budget that all calls share. What is
//! said here is what it cannot know: which failures of DynamoDB mean "later", and which writes must not be repeated.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use aws_sdk_dynamodb::{
    config::{
        BehaviorVersion, Builder, ConfigBag, Intercept, RuntimeComponents,
        interceptors::{
            BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef, InterceptorContext,
        },
        retry::{ClassifyRetry, RetryAction, RetryConfig, RetryPartition, TokenBucket},
        timeout::TimeoutConfig,
    },
    error::BoxError,
    operation::{
        delete_item::DeleteItemError, put_item::PutItemError, transact_write_items::TransactWriteItemsError,
        update_item::UpdateItemError,
    },
    types::CancellationReason,
};

use crate::{error, meter::Meter, options::Options};

/// The configuration of a client.
pub(crate) fn configured(builder: Builder, options: &Options, budget: &RetryPartition, rule: Rule) -> Builder {
    let meter = rule.meter.clone();
    builder
        .behavior_version(BehaviorVersion::latest())
        .retry_config(retries(options))
        .timeout_config(timeouts(options))
        .retry_partition(budget.clone())
        .retry_classifier(rule)
        .interceptor(Attempts(meter))
}

pub(crate) fn retries(options: &Options) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(options.attempts.max(1))
        .with_initial_backoff(options.first_backoff)
        .with_max_backoff(options.longest_backoff)
}

pub(crate) fn timeouts(options: &Options) -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_timeout(options.call_timeout)
        .operation_attempt_timeout(options.attempt_timeout)
        .connect_timeout(options.attempt_timeout)
        .build()
}

/// The retries that all calls share.
pub(crate) fn budget(options: &Options) -> RetryPartition {
    let tokens = TokenBucket::builder()
        .capacity(options.retry_budget as usize)
        .retry_cost(1)
        .throttling_retry_cost(1)
        .timeout_retry_cost(1)
        .success_reward(0.1)
        .build();
    RetryPartition::custom("nagaya-dynamodb").token_bucket(tokens).build()
}

thread_local! {
    /// Whether an attempt of the call that is being polled has perhaps happened, though there was no answer.
    static DOUBT: Cell<bool> = const { Cell::new(false) };
}

/// Awaits a call, and tells whether one of its attempts has perhaps happened without an answer. If so, a refusal of a later
/// attempt does not say that nothing has happened.
pub(crate) async fn doubted<F: Future>(call: F) -> (F::Output, bool) {
    let mut call = pin!(call);
    let mut doubt = false;
    let answer = poll_fn(|context| {
        let outer = DOUBT.replace(doubt);
        let polled = call.as_mut().poll(context);
        doubt = DOUBT.replace(outer);
        polled
    });
    (answer.await, doubt)
}

/// Which failures are tried again.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Whether an attempt may be repeated that has perhaps happened.
    pub(crate) repeats: bool,
    pub(crate) meter: Meter,
}

impl ClassifyRetry for Rule {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(Err(failure)) = context.output_or_error() else { return RetryAction::NoActionIndicated };
        let connector = failure.as_connector_error();
        if failure.is_timeout_error() || connector.is_some_and(|failure| failure.is_timeout()) {
            self.meter.count(|metrics| metrics.timeouts += 1);
        }
        let status = context.response().map_or(0, |response| response.status().as_u16());
        let never_sent = connector.is_some_and(|failure| error::is_never_sent(failure));
        let unanswered = !never_sent && (!failure.is_operation_error() || status >= 500);
        let throttled = context.response().filter(|_| status == 400).and_then(|response| response.body().bytes());
        if throttled.is_some_and(is_throttle) {
            self.meter.count(|metrics| metrics.throttles += 1);
        }
        if unanswered {
            DOUBT.set(true);
            if !self.repeats {
                return RetryAction::RetryForbidden;
            }
        }
        // Another one was at the same item at that moment, or too many were at the table.
        let passes = failure.as_operation_error().is_some_and(|failure| {
            if let Some(failure) = failure.downcast_ref::<TransactWriteItemsError>() {
                matches!(failure, TransactWriteItemsError::TransactionCanceledException(canceled)
                    if is_passing(canceled.cancellation_reasons()))
            } else if let Some(failure) = failure.downcast_ref::<PutItemError>() {
                failure.is_transaction_conflict_exception()
            } else if let Some(failure) = failure.downcast_ref::<UpdateItemError>() {
                failure.is_transaction_conflict_exception()
            } else {
                failure.downcast_ref().is_some_and(DeleteItemError::is_transaction_conflict_exception)
            }
        });
        if passes { RetryAction::throttling_error() } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "what may be repeated"
    }
}

/// Whether the body of an answer says that there were too many calls.
fn is_throttle(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(400)]);
    ["ProvisionedThroughputExceeded", "ThrottlingE", "RequestLimitExceeded"].iter().any(|code| start.contains(code))
}

/// Whether all reasons against a transaction are ones that pass.
fn is_passing(reasons: &[CancellationReason]) -> bool {
    let mut codes = reasons.iter().filter_map(CancellationReason::code).filter(|code| *code != "None").peekable();
    codes.peek().is_some() && codes.all(error::is_busy)
}

/// Counts calls and attempts: the attempts beyond are retries.
#[derive(Debug)]
struct Attempts(Meter);

impl Intercept for Attempts {
    fn name(&self) -> &'static str {
        "attempts"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.called();
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.tried();
        Ok(())
    }
}

/// The wait before each further request of a batch that the server did not finish: random, up to twice the one before.
#[derive(Debug)]
pub(crate) struct Backoff {
    most: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(options: &Options) -> Self {
        Backoff { most: options.first_backoff, longest: options.longest_backoff }
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.most.mul_f64(fastrand::f64())).await;
        self.most = self.longest.min(self.most * 2);
    }

    /// From the start again: the server is taking work.
    pub(crate) fn reset(&mut self, options: &Options) {
        *self = Backoff::new(options);
    }
}
