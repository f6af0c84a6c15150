//! Which failed calls are retried, and after how long.
//!
//! The SDK implements backoff with jitter, the maximum number of attempts and the retry budget that all calls share. This
//! module adds what the SDK does not know: which failures are transient, and which writes must not be sent twice.

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

use super::{error, meter::Meter, options::Options};

/// The configuration of a client.
pub(crate) fn configure(
    builder: Builder,
    options: &Options,
    budget: &RetryPartition,
    classifier: RetryClassifier,
) -> Builder {
    let meter = classifier.meter.clone();
    builder
        .behavior_version(BehaviorVersion::latest())
        .retry_config(retries(options))
        .timeout_config(timeouts(options))
        .retry_partition(budget.clone())
        .retry_classifier(classifier)
        .interceptor(AttemptCounter(meter))
}

pub(crate) fn retries(options: &Options) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(options.max_attempts.max(1))
        .with_initial_backoff(options.initial_backoff)
        .with_max_backoff(options.max_backoff)
}

pub(crate) fn timeouts(options: &Options) -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_timeout(options.call_timeout)
        .operation_attempt_timeout(options.attempt_timeout)
        .connect_timeout(options.attempt_timeout)
        .build()
}

/// The retry budget that all calls share.
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
    /// Whether an attempt of the call that is being polled may have been carried out without a response.
    static ATTEMPT_WAS_AMBIGUOUS: Cell<bool> = const { Cell::new(false) };
}

/// Awaits a call, and notes whether one of its attempts may have been carried out without a response. If so, a rejection
/// of a later attempt does not prove that nothing has happened.
pub(crate) async fn send_noting_ambiguity<F: Future>(call: F) -> (F::Output, bool) {
    let mut call = pin!(call);
    let mut ambiguous = false;
    let response = poll_fn(|context| {
        let outer = ATTEMPT_WAS_AMBIGUOUS.replace(ambiguous);
        let polled = call.as_mut().poll(context);
        ambiguous = ATTEMPT_WAS_AMBIGUOUS.replace(outer);
        polled
    });
    (response.await, ambiguous)
}

/// Decides which failed attempts are retried.
#[derive(Debug)]
pub(crate) struct RetryClassifier {
    /// Whether to retry an attempt that may have been carried out.
    pub(crate) repeats_ambiguous: bool,
    pub(crate) meter: Meter,
}

impl ClassifyRetry for RetryClassifier {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(Err(failure)) = context.output_or_error() else { return RetryAction::NoActionIndicated };
        let connector = failure.as_connector_error();
        if failure.is_timeout_error() || connector.is_some_and(|failure| failure.is_timeout()) {
            self.meter.count(|metrics| metrics.timeouts += 1);
        }
        let status = context.response().map_or(0, |response| response.status().as_u16());
        let never_sent = connector.is_some_and(|failure| error::is_never_sent(failure));
        let ambiguous = !never_sent && (!failure.is_operation_error() || status >= 500);
        let throttled = context.response().filter(|_| status == 400).and_then(|response| response.body().bytes());
        if throttled.is_some_and(is_throttle) {
            self.meter.count(|metrics| metrics.throttles += 1);
        }
        if ambiguous {
            ATTEMPT_WAS_AMBIGUOUS.set(true);
            if !self.repeats_ambiguous {
                return RetryAction::RetryForbidden;
            }
        }
        // Conflicts with another transaction, and throttling inside a transaction, are transient.
        let is_transient = failure.as_operation_error().is_some_and(|failure| {
            if let Some(failure) = failure.downcast_ref::<TransactWriteItemsError>() {
                matches!(failure, TransactWriteItemsError::TransactionCanceledException(canceled)
                    if is_transient_cancellation(canceled.cancellation_reasons()))
            } else if let Some(failure) = failure.downcast_ref::<PutItemError>() {
                failure.is_transaction_conflict_exception()
            } else if let Some(failure) = failure.downcast_ref::<UpdateItemError>() {
                failure.is_transaction_conflict_exception()
            } else {
                failure.downcast_ref().is_some_and(DeleteItemError::is_transaction_conflict_exception)
            }
        });
        if is_transient { RetryAction::throttling_error() } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "nagaya retries"
    }
}

/// Whether the body of a response reports throttling.
fn is_throttle(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(400)]);
    ["ProvisionedThroughputExceeded", "ThrottlingE", "RequestLimitExceeded"].iter().any(|code| start.contains(code))
}

/// Whether all cancellation reasons of a transaction are transient.
fn is_transient_cancellation(reasons: &[CancellationReason]) -> bool {
    let mut codes = reasons.iter().filter_map(CancellationReason::code).filter(|code| *code != "None").peekable();
    codes.peek().is_some() && codes.all(error::is_busy)
}

/// Counts calls and attempts; the difference is the number of retries.
#[derive(Debug)]
struct AttemptCounter(Meter);

impl Intercept for AttemptCounter {
    fn name(&self) -> &'static str {
        "attempts"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.count_call();
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.count_attempt();
        Ok(())
    }
}

/// The delay before each further request of a batch that the server did not finish: random, with a limit that doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    limit: Duration,
    max_limit: Duration,
}

impl Backoff {
    pub(crate) fn new(options: &Options) -> Self {
        Backoff { limit: options.initial_backoff, max_limit: options.max_backoff }
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.limit.mul_f64(fastrand::f64())).await;
        self.limit = self.max_limit.min(self.limit * 2);
    }

    /// Starts again with the shortest delay, after the server made progress.
    pub(crate) fn reset(&mut self, options: &Options) {
        *self = Backoff::new(options);
    }
}
