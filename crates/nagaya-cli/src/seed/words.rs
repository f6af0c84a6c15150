//! The words that made-up data is made of.

/// A name as it is written, and as it stands in an address.
type Name = (&'static str, &'static str);

pub(super) const GIVEN_JA: [Name; 24] = [
    ("花子", "hanako"),
    ("太郎", "taro"),
    ("陽菜", "hina"),
    ("蓮", "ren"),
    ("葵", "aoi"),
    ("湊", "minato"),
    ("結衣", "yui"),
    ("大翔", "hiroto"),
    ("美咲", "misaki"),
    ("翔太", "shota"),
    ("さくら", "sakura"),
    ("健太", "kenta"),
    ("直子", "naoko"),
    ("浩", "hiroshi"),
    ("恵", "megumi"),
    ("誠", "makoto"),
    ("由美", "yumi"),
    ("隆", "takashi"),
    ("千尋", "chihiro"),
    ("悠斗", "yuto"),
    ("真央", "mao"),
    ("拓海", "takumi"),
    ("香織", "kaori"),
    ("亮", "ryo"),
];

pub(super) const FAMILY_JA: [Name; 24] = [
    ("佐藤", "sato"),
    ("鈴木", "suzuki"),
    ("高橋", "takahashi"),
    ("田中", "tanaka"),
    ("伊藤", "ito"),
    ("渡辺", "watanabe"),
    ("山本", "yamamoto"),
    ("中村", "nakamura"),
    ("小林", "kobayashi"),
    ("加藤", "kato"),
    ("吉田", "yoshida"),
    ("山田", "yamada"),
    ("佐々木", "sasaki"),
    ("山口", "yamaguchi"),
    ("松本", "matsumoto"),
    ("井上", "inoue"),
    ("木村", "kimura"),
    ("林", "hayashi"),
    ("清水", "shimizu"),
    ("山崎", "yamazaki"),
    ("森", "mori"),
    ("池田", "ikeda"),
    ("橋本", "hashimoto"),
    ("石川", "ishikawa"),
];

pub(super) const GIVEN_EN: [&str; 24] = [
    "Emma", "Liam", "Olivia", "Noah", "Ava", "James", "Sophia", "Lucas", "Mia", "Henry", "Grace", "Owen", "Nora",
    "Theo", "Ruth", "Oscar", "Alice", "Simon", "Clara", "Peter", "Irene", "Walter", "Julia", "Martin",
];

pub(super) const FAMILY_EN: [&str; 24] = [
    "Clark", "Evans", "Moore", "Hall", "Young", "Wright", "Baker", "Carter", "Turner", "Parker", "Collins", "Morris",
    "Reed", "Cook", "Bell", "Ward", "Brooks", "Gray", "Price", "Wood", "Ross", "Hughes", "Foster", "Long",
];

/// Reserved for examples: nobody is written to.
pub(super) const DOMAINS: [&str; 3] = ["example.com", "example.org", "example.jp"];

pub(super) const COMPANIES: [&str; 16] = [
    "Aozora Trading",
    "Kita Logistics",
    "Harbour Books",
    "Mizuho Kitchen",
    "Northwind Foods",
    "Sakura Dental",
    "Old Mill Bakery",
    "Hoshi Robotics",
    "Green Valley Farm",
    "Minato Design",
    "Riverside Clinic",
    "Tsubame Travel",
    "Lantern Studio",
    "Yamabiko Audio",
    "Stonebridge Law",
    "Komorebi Gardens",
];

pub(super) const VERBS: [&str; 14] = [
    "Prepare",
    "Check",
    "Update",
    "Review",
    "Order",
    "Fix",
    "Translate",
    "Plan",
    "Send",
    "Collect",
    "Renew",
    "Test",
    "Draft",
    "Archive",
];

pub(super) const OBJECTS: [&str; 24] = [
    "the quarterly report",
    "the invoice for March",
    "the login page",
    "the travel booking",
    "the contract with the printer",
    "the slides for Monday",
    "the stock list",
    "the staff handbook",
    "the backup of the file server",
    "the answer to the auditor",
    "the newsletter",
    "the meeting room display",
    "the customer survey",
    "the price list",
    "the welcome mail",
    "the shift schedule",
    "the export to the tax office",
    "the spare keys",
    "the road map",
    "the insurance form",
    "the broken projector",
    "the agenda",
    "the Japanese help pages",
    "the delivery address",
];

/// What families do.
pub(super) const AT_HOME: [&str; 24] = [
    "Buy milk",
    "Call the dentist",
    "Water the plants",
    "Book the train to Kyoto",
    "Return the library books",
    "Fix the bicycle",
    "Plan the birthday party",
    "Sign the school form",
    "Renew the passport",
    "Clean the balcony",
    "Sort the winter clothes",
    "Write to grandmother",
    "牛乳を買う",
    "ゴミを出す",
    "洗濯物を取り込む",
    "保育園の書類を出す",
    "電球を替える",
    "お米を注文する",
    "写真を整理する",
    "自転車の空気を入れる",
    "歯医者を予約する",
    "犬の散歩",
    "お弁当を作る",
    "図書館に本を返す",
];

pub(super) const SENTENCES_EN: [&str; 13] = [
    "The figures are in the shared folder.",
    "Please have a look before Friday.",
    "It worked last week and does not any more.",
    "The customer has called twice about it.",
    "Nothing is urgent here, but it should not be forgotten.",
    "See the notes from the last meeting.",
    "We agreed to keep it short.",
    "The old version is still on the website.",
    "I have asked for a second quote.",
    "This waits for an answer from the supplier.",
    "It can be closed as soon as the test has passed.",
    "The deadline has moved to the end of the month.",
    "Everything else is as before.",
];

pub(super) const SENTENCES_JA: [&str; 9] = [
    "ご確認をお願いします。",
    "来週の会議で決めましょう。",
    "資料は共有フォルダーにあります。",
    "明日までに返事をください。",
    "前回と同じ手順で進めます。",
    "お客様から問い合わせがありました。",
    "修正が終わったら連絡します。",
    "見積もりを待っています。",
    "古い版は残しておいてください。",
];

pub(super) const AT_TABLE: [&str; 10] = [
    "少し薄味にした。",
    "子どもに好評。",
    "次は倍量で作る。",
    "前日に仕込んでおくと楽。",
    "残りは冷凍できる。",
    "辛さは控えめに。",
    "Everybody asked for more.",
    "Goes well with rice.",
    "Better on the next day.",
    "Less salt next time.",
];

pub(super) const INSTRUCTIONS: [&str; 6] = [
    "Sort incoming mail by what it asks for, and make a task of what has a deadline.",
    "Read the attached invoice and give supplier, amount, currency and due date.",
    "Answer in the language of the question, in at most five sentences.",
    "Say so when you are not sure, and name the document that you would need.",
    "会議の要点を三つにまとめ、担当者と期限を書き出す。",
    "Never pass on personal data.",
];

pub(super) const ERRORS: [&str; 5] = [
    "the provider answered 503 Service Unavailable",
    "the refresh token has been revoked",
    "timed out after 30 s",
    "quota exceeded",
    "the connection was closed before the answer was complete",
];

pub(super) const DISHES: [&str; 32] = [
    "肉じゃが",
    "鮭の塩焼き",
    "豚の生姜焼き",
    "親子丼",
    "麻婆豆腐",
    "ほうれん草のごま和え",
    "だし巻き卵",
    "筑前煮",
    "きんぴらごぼう",
    "豚汁",
    "カレーライス",
    "鶏の唐揚げ",
    "ひじきの煮物",
    "さばの味噌煮",
    "オムライス",
    "茶碗蒸し",
    "焼きそば",
    "冷やし中華",
    "白菜と豚肉の重ね蒸し",
    "かぼちゃの煮物",
    "Tomato soup with basil",
    "Lentil stew",
    "Baked cod with lemon",
    "Mushroom risotto",
    "Potato salad",
    "Chicken curry",
    "Spinach quiche",
    "Roasted vegetables",
    "Minestrone",
    "Apple crumble",
    "Cucumber salad",
    "Pancakes",
];

/// What there is in a kitchen, and what it is counted in.
pub(super) const FOODS: [(&str, &str, &str); 24] = [
    ("じゃがいも", "個", "野菜"),
    ("玉ねぎ", "個", "野菜"),
    ("にんじん", "本", "野菜"),
    ("ほうれん草", "束", "野菜"),
    ("白菜", "個", "野菜"),
    ("大根", "本", "野菜"),
    ("豚ロース", "g", "肉"),
    ("鶏もも肉", "g", "肉"),
    ("牛こま切れ", "g", "肉"),
    ("鮭", "切れ", "魚"),
    ("さば", "切れ", "魚"),
    ("豆腐", "丁", "大豆"),
    ("味噌", "g", "調味料"),
    ("醤油", "ml", "調味料"),
    ("みりん", "ml", "調味料"),
    ("卵", "個", "卵・乳"),
    ("牛乳", "ml", "卵・乳"),
    ("米", "g", "主食"),
    ("tomatoes", "g", "vegetables"),
    ("lemon", "pcs", "fruit"),
    ("basil", "bunch", "herbs"),
    ("butter", "g", "dairy"),
    ("flour", "g", "baking"),
    ("olive oil", "ml", "oils"),
];

pub(super) const STEPS: [&str; 10] = [
    "野菜を一口大に切る。",
    "鍋に油を熱し、肉を炒める。",
    "だしを加えて、落とし蓋をして煮る。",
    "味噌を溶き入れ、火を止める。",
    "器に盛り、ねぎを散らす。",
    "Chop everything finely.",
    "Simmer for twenty minutes.",
    "Season with salt and pepper.",
    "Bake until golden.",
    "Serve warm.",
];

pub(super) const MEALS: [&str; 8] =
    ["朝ごはん", "お弁当", "平日の夕食", "週末のごちそう", "常備菜", "Soups", "Quick dinners", "Desserts"];

pub(super) const ALLERGENS: [&str; 6] = ["卵", "乳", "小麦", "そば", "えび", "落花生"];

pub(super) const TAGS: [&str; 10] =
    ["important", "draft", "follow-up", "2026", "finance", "customer", "internal", "至急", "要確認", "保留"];

pub(super) const FOOD_TAGS: [&str; 8] =
    ["quick", "weekend", "定番", "季節", "作り置き", "お弁当", "vegetarian", "おもてなし"];

pub(super) const CATEGORIES: [&str; 8] =
    ["work", "finance", "support", "travel", "people", "office", "sales", "maintenance"];

pub(super) const AGENTS: [&str; 10] = [
    "Mail triage",
    "Invoice reader",
    "Meeting notes",
    "Translation desk",
    "Travel planner",
    "Contract check",
    "Support answers",
    "Weekly report",
    "Data cleaner",
    "Release notes",
];

pub(super) const MODELS: [&str; 3] = ["general-large", "general-small", "reasoning-medium"];

pub(super) const FOLDERS: [&str; 12] = [
    "Contracts",
    "Invoices",
    "Photos",
    "Reports",
    "Templates",
    "Minutes",
    "Press",
    "Archive",
    "Plans",
    "Training",
    "議事録",
    "見積書",
];

/// A file, and what its content is.
pub(super) const FILES: [(&str, &str); 10] = [
    ("budget.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("minutes.md", "text/markdown"),
    ("contract.pdf", "application/pdf"),
    ("logo.svg", "image/svg+xml"),
    ("team.jpg", "image/jpeg"),
    ("export.csv", "text/csv"),
    ("slides.pdf", "application/pdf"),
    ("notes.txt", "text/plain"),
    ("plan.png", "image/png"),
    ("見積書.pdf", "application/pdf"),
];

pub(super) const CHANNELS: [&str; 12] = [
    "general",
    "random",
    "sales",
    "support",
    "engineering",
    "hiring",
    "design",
    "office",
    "releases",
    "incidents",
    "finance",
    "lunch",
];

pub(super) const SERVICES: [&str; 10] = [
    "file-service",
    "messaging-service",
    "api-service",
    "backup-service",
    "billing-service",
    "search-service",
    "report-service",
    "calendar-service",
    "survey-service",
    "archive-service",
];

pub(super) const JOBS: [&str; 6] =
    ["Nightly backup", "Weekly archive", "Hourly export", "Monthly snapshot", "Mail backup", "File sync"];

pub(super) const KEYS: [&str; 6] =
    ["CI pipeline", "Accounting export", "Mobile app", "Data warehouse", "Website", "Partner access"];

pub(super) const ROLES: [&str; 5] = ["admin", "editor", "viewer", "auditor", "member"];

pub(super) const SCOPES: [&str; 5] = ["read", "write", "files.read", "messages.read", "mail.readonly"];

pub(super) const ENDPOINTS: [&str; 6] =
    ["/v1/files", "/v1/folders", "/v1/messages", "/v1/users", "/v1/channels", "/v1/backup-jobs"];

pub(super) const SOURCES: [&str; 5] = ["api", "worker", "scheduler", "mail-sync", "agent-runner"];

pub(super) const LOG_LINES: [&str; 6] = [
    "request finished in 34 ms",
    "mail synchronised, 3 new messages",
    "agent started",
    "agent finished",
    "token refreshed",
    "scheduled run skipped: the previous one is not finished",
];

pub(super) const ACTIONS: [&str; 4] = ["user.create", "task.update", "agent.update", "email_account.delete"];

pub(super) const USER_AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
];

pub(super) const DEVICES: [&str; 5] = ["iPhone", "Pixel 8", "MacBook", "iPad", "居間のタブレット"];

pub(super) const CITIES: [&str; 8] = ["東京", "大阪", "札幌", "福岡", "London", "Berlin", "Toronto", "Lisbon"];

pub(super) const SCHEDULES: [&str; 4] = ["0 3 * * *", "30 1 * * 0", "15 * * * *", "0 0 1 * *"];

pub(super) const BRANDS: [&str; 4] = ["jcb", "visa", "mastercard", "amex"];

pub(super) const KINDS: [&str; 4] = ["reminder", "news", "comment", "warning"];
