//! A fake payment provider that records its calls and fails on request.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use nagaya_kondate::{
    Card, CardToken, ChargeId, LocalPayments, PaymentError, PaymentFuture, PaymentProvider, SubscriptionCharge,
    SubscriptionPlan, SubscriptionState, SubscriptionStatus, WebhookError, WebhookEvent, WebhookMessage,
};
use nagaya_testing::{ManualClock, TestServer, memory_store};

use crate::harness::{design, system_with};

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFailure {
    /// The request does not arrive.
    RequestLost,
    /// The call succeeds, but the response is lost, as if the product had been killed at this moment.
    ResponseLost,
}

#[derive(Debug, Default)]
pub(super) struct FakeProvider(Mutex<FakeProviderState>);

#[derive(Debug, Default)]
pub(super) struct FakeProviderState {
    /// Failures of the next calls with this name.
    pub(super) failures: VecDeque<(&'static str, InjectedFailure)>,
    pub(super) forgotten: BTreeSet<String>,
    /// Charges by idempotency key.
    pub(super) charges: BTreeMap<String, u64>,
    /// Subscriptions by idempotency key, with the tokens that pay for them.
    pub(super) subscriptions: BTreeMap<String, String>,
    /// Their plans, with the prices that are charged.
    pub(super) subscribed_plans: Vec<SubscriptionPlan>,
    /// The state that is reported for each subscription.
    pub(super) subscription_state: Option<SubscriptionState>,
    /// The id that is reported for each subscription, in place of its own.
    pub(super) subscription_id: Option<String>,
    /// The charges that are reported for each subscription.
    pub(super) subscription_charges: Vec<SubscriptionCharge>,
    /// Whether subscriptions end with their period.
    pub(super) ends: bool,
    pub(super) calls: Vec<&'static str>,
}

impl FakeProvider {
    pub(super) fn state(&self) -> MutexGuard<'_, FakeProviderState> {
        self.0.lock().expect("no panic")
    }

    pub(super) fn inject(&self, call: &'static str, failure: InjectedFailure) {
        self.state().failures.push_back((call, failure));
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        act: impl FnOnce(&mut FakeProviderState) -> Result<T, PaymentError> + Send + 'a,
    ) -> PaymentFuture<'a, T> {
        Box::pin(async move {
            // Let other tasks run in between.
            tokio::task::yield_now().await;
            let answer = {
                let mut state = self.state();
                state.calls.push(call);
                let failure = match state.failures.front() {
                    Some((of, failure)) if *of == call => Some(*failure),
                    _ => None,
                };
                if failure.is_some() {
                    state.failures.pop_front();
                }
                match failure {
                    Some(InjectedFailure::RequestLost) => Err(PaymentError::Unavailable),
                    Some(InjectedFailure::ResponseLost) => act(&mut state).and(Err(PaymentError::Unavailable)),
                    None => act(&mut state),
                }
            };
            tokio::task::yield_now().await;
            answer
        })
    }
}

impl FakeProviderState {
    fn accept(&self, token: &CardToken) -> Result<(), PaymentError> {
        let gone = self.forgotten.contains(token.expose());
        if gone { Err(PaymentError::Declined("The card is not known.".to_owned())) } else { Ok(()) }
    }

    fn status(&self, subscription: &str) -> SubscriptionStatus {
        SubscriptionStatus {
            subscription: self.subscription_id.as_deref().unwrap_or(subscription).to_owned(),
            state: self.subscription_state.unwrap_or(SubscriptionState::Active),
            period_end: 1_900_000_000_000,
            ends_with_period: self.ends,
        }
    }
}

impl PaymentProvider for FakeProvider {
    fn name(&self) -> &str {
        "bank"
    }

    fn attach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, Card> {
        self.call("card", |state| {
            state.accept(token)?;
            Ok(Card { brand: "visa".to_owned(), last4: "4242".to_owned(), exp_month: 1, exp_year: 2040 })
        })
    }

    fn detach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, ()> {
        self.call("forget", |state| {
            state.forgotten.insert(token.expose().to_owned());
            Ok(())
        })
    }

    fn charge<'a>(
        &'a self,
        token: &'a CardToken,
        amount: u64,
        _: &'a str,
        key: &'a str,
    ) -> PaymentFuture<'a, ChargeId> {
        self.call("charge", move |state| {
            if let Some(charged) = state.charges.get(key) {
                assert_eq!(*charged, amount, "a key belongs to one charge");
                return Ok(ChargeId(key.to_owned()));
            }
            state.accept(token)?;
            state.charges.insert(key.to_owned(), amount);
            Ok(ChargeId(key.to_owned()))
        })
    }

    fn subscribe<'a>(
        &'a self,
        token: &'a CardToken,
        plan: &'a SubscriptionPlan,
        key: &'a str,
    ) -> PaymentFuture<'a, SubscriptionStatus> {
        self.call("subscribe", move |state| {
            if !state.subscriptions.contains_key(key) {
                state.accept(token)?;
                state.subscriptions.insert(key.to_owned(), token.expose().to_owned());
                state.subscribed_plans.push(plan.clone());
            }
            Ok(state.status(key))
        })
    }

    fn cancel<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.call("cancel", move |state| {
            state.ends = true;
            Ok(state.status(subscription))
        })
    }

    fn resume<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.call("resume", move |state| {
            state.ends = false;
            Ok(state.status(subscription))
        })
    }

    fn subscription_status<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.call("status", move |state| Ok(state.status(subscription)))
    }

    fn subscription_charges<'a>(&'a self, _: &'a str) -> PaymentFuture<'a, Vec<SubscriptionCharge>> {
        self.call("charges", |state| Ok(state.subscription_charges.clone()))
    }

    fn webhook_event(&self, message: &WebhookMessage<'_>) -> Result<WebhookEvent, WebhookError> {
        LocalPayments::default().webhook_event(message)
    }
}

/// A server with the fake provider.
pub(super) fn server_with_fake_provider() -> (TestServer, Arc<FakeProvider>) {
    let (clock, provider) = (ManualClock::default(), Arc::new(FakeProvider::default()));
    let payments: Arc<dyn PaymentProvider> = Arc::<FakeProvider>::clone(&provider);
    let system = system_with(design(), payments);
    let store = memory_store(&clock);
    (TestServer::builder(system).store(store, &clock).start(), provider)
}

/// The same system after a restart of its server.
pub(super) fn restart(server: TestServer, provider: &Arc<FakeProvider>) -> TestServer {
    let (store, clock) = (Arc::clone(&server.store), server.clock.clone());
    drop(server);
    let payments: Arc<dyn PaymentProvider> = Arc::<FakeProvider>::clone(provider);
    TestServer::builder(system_with(design(), payments)).store(store, &clock).start()
}

/// The same system after a change to the local provider.
pub(super) fn with_local_provider(server: TestServer) -> TestServer {
    let (store, clock) = (Arc::clone(&server.store), server.clock.clone());
    drop(server);
    let payments: Arc<dyn PaymentProvider> = Arc::new(LocalPayments::new(clock.clock()));
    TestServer::builder(system_with(design(), payments)).store(store, &clock).start()
}
