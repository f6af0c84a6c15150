//! Texts by what a field is called: people get names, files get paths, tasks get something to do.

use nagaya_design::{Default, Design, Field};
use serde_json::Value as Json;

use super::{
    item::{DAY, Maker},
    links::words,
    luck::Luck,
    people::Person,
    value::fits,
    words::*,
};

/// A text that a field takes, by these words; `None` if none is found.
pub(super) fn text(maker: &mut Maker<'_>, field: &Field, words: &[String]) -> Option<String> {
    // What is nearly always the same is so here too.
    if let Some(Default::Constant(Json::String(usual))) = &field.default
        && !usual.is_empty()
        && !words.ends_with(&["type".to_owned()])
    {
        return Some(usual.clone());
    }
    let mut tries = maker.tries(field, words);
    // Chance alone does not make it different from what is there.
    if maker.attempt > 5 && maker.is_told_apart_by(field) {
        let again = maker.n + maker.attempt * 1_000;
        tries = tries.iter().map(|text| numbered(text, again)).collect();
    }
    let takes = |text: &String| fits(field, &text.as_str().into());
    let short = |text: &String| text.chars().take(field.size).collect::<String>();
    let slugged = |text: &String| format!("{}{}", field.prefix(), slug(text));
    tries
        .iter()
        .map(short)
        .find(takes)
        .or_else(|| tries.iter().map(slugged).find(takes))
        // Words will not do.
        .or_else(|| field.matching_text(&mut |count| maker.luck.below(count)).filter(takes))
        .or_else(|| field.example().as_str().map(str::to_owned).filter(takes))
}

/// A sentence.
pub(super) fn sentence(luck: &mut Luck) -> String {
    luck.word(&SENTENCES_EN).to_owned()
}

/// Something to do.
fn chore(luck: &mut Luck) -> String {
    format!("{} {}", luck.word(&VERBS), luck.word(&OBJECTS))
}

/// Some sentences, in one language.
fn sentences(luck: &mut Luck, most: i64) -> String {
    let (of, between): (&[&str], _) = if luck.happens(60) { (&SENTENCES_EN, " ") } else { (&SENTENCES_JA, "") };
    (0..luck.between(1, most)).map(|_| luck.word(of)).collect::<Vec<_>>().join(between)
}

/// A page with a title, a list and some text.
fn markdown(luck: &mut Luck) -> String {
    let title = chore(luck);
    let list: String = (0..luck.between(2, 4)).map(|_| format!("- {}\n", chore(luck))).collect();
    format!("# {title}\n\n{}\n\n{list}\n{}\n", sentences(luck, 3), sentences(luck, 2))
}

/// An address of a machine, of those that are reserved for examples.
fn address(luck: &mut Luck) -> String {
    format!("{}.{}", luck.word(&["192.0.2", "198.51.100", "203.0.113"]), luck.between(1, 254))
}

fn host(luck: &mut Luck, n: usize) -> String {
    format!("{}.{}", slug(&nth(&COMPANIES, n)), luck.word(&DOMAINS))
}

/// Lower-case words with hyphens between them.
fn slug(text: &str) -> String {
    let plain = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_lowercase() } else { ' ' };
    text.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join("-")
}

/// A text with a number, as one would add it.
fn numbered(text: &str, number: usize) -> String {
    match text.split_once('@') {
        Some((local, host)) => format!("{local}{number}@{host}"),
        None if text.contains(' ') => format!("{text} {number}"),
        None => format!("{text}-{number}"),
    }
}

/// The n-th of some words, with a number once all have been used.
fn nth(of: &[&str], n: usize) -> String {
    let word = of.get(n % of.len().max(1)).copied().unwrap_or_default();
    match n / of.len().max(1) {
        0 => word.to_owned(),
        again => format!("{word} {}", again + 1),
    }
}

/// What a system is about, as far as its texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Office,
    Home,
    Kitchen,
}

fn theme(design: &Design) -> Theme {
    let about = |wanted: &[&str], name: &str| words(name).iter().any(|word| wanted.contains(&word.as_str()));
    if design.entities.iter().any(|entity| about(&["recipe", "dish", "menu", "fridge"], &entity.name)) {
        return Theme::Kitchen;
    }
    if about(&["family", "household", "home"], &design.tenant.field) { Theme::Home } else { Theme::Office }
}

impl Maker<'_> {
    /// Whether a field is part of what no two items have in common.
    pub(super) fn is_told_apart_by(&self, field: &Field) -> bool {
        let entity = self.task.entity;
        let unique = || entity.unique.iter().flat_map(|unique| &unique.fields);
        entity.is_key_field(&field.name) || unique().any(|name| *name == field.name)
    }

    /// Whether a field holds the name of a tenant.
    pub(super) fn is_a_tenant(&self, of: &[String]) -> bool {
        let design = self.scene.design;
        let own = words(&design.tenant.field);
        let mut fields = design.entities.iter().filter_map(|entity| entity.tenant.as_deref());
        // A word alone, such as `id`, would be the end of many names.
        own.len() > 1 && of.ends_with(&own) || own == of || fields.any(|field| words(field) == of)
    }

    /// Texts for a field, the best first; not all of them fit.
    fn tries(&mut self, field: &Field, words: &[String]) -> Vec<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut tries: Vec<String> = self.by_name(field, &words).into_iter().collect();
        // An id that says what the item is: of which service, and which of its roles.
        if words == ["id"] {
            let links = self.task.links.keys().map(String::as_str).filter(|_| !field.prefix().is_empty());
            let parts = links.chain(["roleName", "name", "title"]);
            let parts: Vec<String> = parts.filter_map(|name| Some(slug(self.fields.get(name)?.as_str()?))).collect();
            tries.insert(0, format!("{}{}", field.prefix(), parts.join("_")));
        }
        if tries.is_empty() {
            let chance = if field.size > 200 { sentences(&mut self.luck, 2) } else { chore(&mut self.luck) };
            tries.push(chance);
        }
        // Whatever it is called, a field may take nothing but an address of some kind.
        let luck = &mut self.luck;
        tries.push(self.person.email.clone());
        tries.push(format!("https://example.com/{}/{}", words.first().unwrap_or(&"item"), luck.hex(10)));
        tries.push(address(luck));
        tries.push(host(luck, self.n));
        tries
    }

    /// What a field with this name says.
    fn by_name(&mut self, field: &Field, words: &[&str]) -> Option<String> {
        let entity = self.task.entity;
        let theme = theme(self.scene.design);
        let kitchen = theme == Theme::Kitchen;
        let last = *words.last()?;
        let first = *words.first()?;
        let personal = field.personal || entity.is_personal(&field.name);
        if self.is_a_tenant(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()) {
            return self.some_tenant();
        }
        let n = self.n;
        let moment = self.moment;
        let luck = &mut self.luck;
        Some(match last {
            "id" => format!("{}{}", field.prefix(), luck.hex(20)),
            "by" | "username" | "handle" | "login" => self.person.handle().to_owned(),
            "name" if words.contains(&"role") => luck.word(&ROLES).to_owned(),
            "name" if first == "tenant" || first == "company" => nth(&COMPANIES, n),
            "name" if first == "device" => luck.word(&DEVICES).to_owned(),
            "name" if personal || matches!(first, "sender" | "author" | "applicant" | "creator" | "full") => {
                self.person.name.clone()
            }
            "name" => self.name(kitchen),
            "author" | "sender" | "owner" | "assignee" | "reporter" | "person" => self.person.name.clone(),
            "from" => format!("{} <{}>", self.person.name, self.person.email),
            "to" | "cc" | "recipients" => Person::numbered(luck.below(1_000)).email,
            "title" if kitchen && entity.name == "set" => nth(&MEALS, n),
            "title" | "subject" | "headline" if kitchen => luck.word(&DISHES).to_owned(),
            "title" | "subject" if theme == Theme::Home => luck.word(&AT_HOME).to_owned(),
            "title" | "subject" | "headline" | "summary" | "task" => chore(luck),
            "markdown" => markdown(luck),
            "instructions" => (0..3).map(|_| luck.word(&INSTRUCTIONS)).collect::<Vec<_>>().join("\n"),
            "body" if field.size >= 5_000 => markdown(luck),
            "error" => luck.word(&ERRORS).to_owned(),
            "message" if first == "error" => luck.word(&ERRORS).to_owned(),
            "message" if words.len() == 1 && entity.field("level").is_some() => {
                let quiet = matches!(self.fields.get("level").and_then(Json::as_str), Some("debug" | "info"));
                luck.word(if quiet { &LOG_LINES[..] } else { &ERRORS[..] }).to_owned()
            }
            "description" | "memo" | "note" | "notes" | "comment" if kitchen => luck.word(&AT_TABLE).to_owned(),
            "description" | "body" | "text" | "content" | "message" | "snippet" | "comment" | "memo" | "note"
            | "notes" | "reason" | "bio" => sentences(luck, 3),
            "email" | "mail" => self.person.email.clone(),
            "url" if matches!(first, "image" | "avatar" | "photo") => {
                format!("https://images.example.com/{}.jpg", luck.hex(12))
            }
            "domain" | "hostname" | "host" => host(luck, n),
            "url" | "uri" | "link" | "href" => format!("https://example.com/{first}/{}", luck.hex(8)),
            "agent" if first == "user" => luck.word(&USER_AGENTS).to_owned(),
            "ip" | "address" if first == "ip" || first == "client" => address(luck),
            "address" | "city" => luck.word(&CITIES).to_owned(),
            "country" => luck.word(&["JP", "GB", "DE", "US"]).to_owned(),
            "phone" => format!("+81 3 5555 {:04}", luck.between(0, 9_999)),
            "language" | "locale" | "lang" => luck.word(&["ja", "en"]).to_owned(),
            "timezone" => "Asia/Tokyo".to_owned(),
            "currency" => "JPY".to_owned(),
            "colour" | "color" => format!("#{}", luck.hex(6)),
            "checksum" | "hash" => format!("sha256:{}", luck.hex(64)),
            "token" | "secret" | "key" | "auth" | "cursor" | "p256dh" => luck.hex(40),
            "model" => luck.word(&MODELS).to_owned(),
            "unit" => FOODS[n % FOODS.len()].1.to_owned(),
            "category" if kitchen => FOODS[n % FOODS.len()].2.to_owned(),
            "category" => luck.word(&CATEGORIES).to_owned(),
            "steps" => luck.word(&STEPS).to_owned(),
            "tags" | "tag" if kitchen => luck.word(&FOOD_TAGS).to_owned(),
            "tags" | "tag" | "labels" | "label" => luck.word(&TAGS).to_owned(),
            "allergies" => luck.word(&ALLERGENS).to_owned(),
            "scopes" | "scope" => luck.word(&SCOPES).to_owned(),
            "permissions" => format!("{}.{}", luck.word(&CATEGORIES), luck.word(&["read", "write"])),
            "role" | "roles" => luck.word(&ROLES).to_owned(),
            "provider" => luck.word(&["example-pay", "example-mail"]).to_owned(),
            "brand" => luck.word(&BRANDS).to_owned(),
            "plan" => luck.word(&["free", "standard", "premium"]).to_owned(),
            "kind" => luck.word(&KINDS).to_owned(),
            "source" => luck.word(&SOURCES).to_owned(),
            "action" => luck.word(&ACTIONS).to_owned(),
            "resource" => format!("task/{}", luck.hex(8)),
            "endpoint" => luck.word(&ENDPOINTS).to_owned(),
            "schedule" => luck.word(&SCHEDULES).to_owned(),
            "version" => format!("{}.{}.{}", luck.between(0, 3), luck.between(0, 9), luck.between(0, 20)),
            "period" | "month" => month(moment),
            "path" => format!("/{}", slug(&nth(&FOLDERS, n))),
            "type" if first == "content" => FILES[n % FILES.len()].1.to_owned(),
            "last4" => format!("{:04}", luck.between(0, 9_999)),
            _ => return None,
        })
    }

    /// What something is called that is not a person.
    fn name(&mut self, kitchen: bool) -> String {
        let n = self.n;
        let entity = words(&self.task.entity.name);
        match entity.last().map_or("", String::as_str) {
            "item" | "ingredient" | "food" if kitchen => FOODS[n % FOODS.len()].0.to_owned(),
            "category" => nth(&MEALS, n),
            "tenant" | "company" | "organisation" | "organization" | "team" | "shop" | "customer" | "account" => {
                nth(&COMPANIES, self.tenant.unwrap_or(0) * 7 + n)
            }
            "agent" | "bot" => nth(&AGENTS, n),
            "folder" | "directory" => nth(&FOLDERS, n),
            "file" | "document" | "attachment" => FILES[n % FILES.len()].0.to_owned(),
            "channel" | "room" => nth(&CHANNELS, n),
            "service" => nth(&SERVICES, n),
            "job" => nth(&JOBS, n),
            "key" => nth(&KEYS, n),
            "role" | "group" => nth(&ROLES, n),
            "dish" | "recipe" | "meal" => self.luck.word(&DISHES).to_owned(),
            _ => chore(&mut self.luck),
        }
    }

    fn some_tenant(&mut self) -> Option<String> {
        let tenants = &self.scene.tenants;
        let at = self.tenant.unwrap_or_else(|| self.luck.below(tenants.len()));
        tenants.get(at).cloned()
    }
}

/// The month of a moment, `2026-02`.
fn month(millis: i64) -> String {
    let day = jiff::Timestamp::from_millisecond(millis - millis.rem_euclid(DAY));
    day.map_or_else(|_| "2026-01".to_owned(), |day| day.to_string().chars().take(7).collect())
}
