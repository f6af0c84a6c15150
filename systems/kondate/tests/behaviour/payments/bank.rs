//! A provider that keeps books, counts, and fails where it is told to.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use nagaya_kondate::{
    Card, CardToken, ChargeId, LocalPayments, PaymentError, PaymentFuture, PaymentProvider, SubscriptionState,
    SubscriptionStatus,
};
use nagaya_testing::{ManualClock, TestServer, memory_store};

use crate::harness::{NAME, design};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does not arrive.
    Unheard,
    /// It is done, and the answer does not arrive: to the product as if it had been killed at this moment.
    Unanswered,
}

#[derive(Debug, Default)]
pub(super) struct Bank(Mutex<Books>);

#[derive(Debug, Default)]
pub(super) struct Books {
    /// What becomes of the next calls of this name.
    pub(super) fates: VecDeque<(&'static str, Fate)>,
    pub(super) forgotten: BTreeSet<String>,
    /// The charges that were made, by key.
    pub(super) charges: BTreeMap<String, u64>,
    /// The subscriptions that were made, by key, with the tokens that pay them.
    pub(super) subscriptions: BTreeMap<String, String>,
    /// How each subscription is said to stand.
    pub(super) state: Option<SubscriptionState>,
    /// Whether they end with their period.
    pub(super) ends: bool,
    pub(super) calls: Vec<&'static str>,
}

impl Bank {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().expect("the books")
    }

    pub(super) fn fails(&self, call: &'static str, fate: Fate) {
        self.books().fates.push_back((call, fate));
    }

    fn asked<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        act: impl FnOnce(&mut Books) -> Result<T, PaymentError> + Send + 'a,
    ) -> PaymentFuture<'a, T> {
        Box::pin(async move {
            // Somebody else gets a chance to come between.
            tokio::task::yield_now().await;
            let answer = {
                let mut books = self.books();
                books.calls.push(call);
                let fate = match books.fates.front() {
                    Some((of, fate)) if *of == call => Some(*fate),
                    _ => None,
                };
                if fate.is_some() {
                    books.fates.pop_front();
                }
                match fate {
                    Some(Fate::Unheard) => Err(PaymentError::Unavailable),
                    Some(Fate::Unanswered) => act(&mut books).and(Err(PaymentError::Unavailable)),
                    None => act(&mut books),
                }
            };
            tokio::task::yield_now().await;
            answer
        })
    }
}

impl Books {
    fn pays(&self, token: &CardToken) -> Result<(), PaymentError> {
        let gone = self.forgotten.contains(token.expose());
        if gone { Err(PaymentError::Declined("The card is not known.".to_owned())) } else { Ok(()) }
    }

    fn standing(&self, subscription: &str) -> SubscriptionStatus {
        SubscriptionStatus {
            subscription: subscription.to_owned(),
            state: self.state.unwrap_or(SubscriptionState::Active),
            period_end: 1_900_000_000_000,
            ends_with_period: self.ends,
        }
    }
}

impl PaymentProvider for Bank {
    fn name(&self) -> &str {
        "bank"
    }

    fn attach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, Card> {
        self.asked("card", |books| {
            books.pays(token)?;
            Ok(Card { brand: "visa".to_owned(), last4: "4242".to_owned(), exp_month: 1, exp_year: 2040 })
        })
    }

    fn detach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, ()> {
        self.asked("forget", |books| {
            books.forgotten.insert(token.expose().to_owned());
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
        self.asked("charge", move |books| {
            if let Some(charged) = books.charges.get(key) {
                assert_eq!(*charged, amount, "the same key is for the same charge");
                return Ok(ChargeId(key.to_owned()));
            }
            books.pays(token)?;
            books.charges.insert(key.to_owned(), amount);
            Ok(ChargeId(key.to_owned()))
        })
    }

    fn subscribe<'a>(
        &'a self,
        token: &'a CardToken,
        _: &'a str,
        key: &'a str,
    ) -> PaymentFuture<'a, SubscriptionStatus> {
        self.asked("subscribe", move |books| {
            if !books.subscriptions.contains_key(key) {
                books.pays(token)?;
                books.subscriptions.insert(key.to_owned(), token.expose().to_owned());
            }
            Ok(books.standing(key))
        })
    }

    fn cancel<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.asked("cancel", move |books| {
            books.ends = true;
            Ok(books.standing(subscription))
        })
    }

    fn resume<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.asked("resume", move |books| {
            books.ends = false;
            Ok(books.standing(subscription))
        })
    }

    fn subscription_status<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        self.asked("standing", move |books| Ok(books.standing(subscription)))
    }
}

/// A server that pays by a bank.
pub(super) fn banking() -> (TestServer, Arc<Bank>) {
    let (clock, bank) = (ManualClock::default(), Arc::new(Bank::default()));
    let payments: Arc<dyn PaymentProvider> = Arc::<Bank>::clone(&bank);
    let system = nagaya_kondate::system(NAME, design(), payments);
    let store = memory_store(&clock);
    (TestServer::builder(system).store(store, &clock).start(), bank)
}

/// The same system after its server has restarted.
pub(super) fn restarted(server: TestServer, bank: &Arc<Bank>) -> TestServer {
    let (store, clock) = (Arc::clone(&server.store), server.clock.clone());
    drop(server);
    let payments: Arc<dyn PaymentProvider> = Arc::<Bank>::clone(bank);
    TestServer::builder(nagaya_kondate::system(NAME, design(), payments)).store(store, &clock).start()
}

/// The same system after it has changed to the provider for development.
pub(super) fn moved(server: TestServer) -> TestServer {
    let (store, clock) = (Arc::clone(&server.store), server.clock.clone());
    drop(server);
    let payments: Arc<dyn PaymentProvider> = Arc::new(LocalPayments::new(clock.clock()));
    TestServer::builder(nagaya_kondate::system(NAME, design(), payments)).store(store, &clock).start()
}
