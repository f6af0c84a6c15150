//! Full-text search of recipes and sets, in a user's book and in the catalog.

use nagaya_testing::{Call, Client, Fault, Response, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{create_item, instrumented_server, kondate_server};

/// Proves the full-text search part of K19.
#[test]
fn recipes_are_found_by_their_text() {
    let server = kondate_server();
    a_recipe_is_found_by_any_part_of_its_title(&server);
    the_best_match_comes_first(&server);
    changed_items_are_found_by_their_new_text(&server);
    sets_are_found_by_their_text(&server);
    a_phrase_is_found_where_its_letters_stand_together(&server);
    words_are_found_in_other_spellings(&server);
}

/// Proves the full-text search part of K19.
#[test]
fn searches_are_filtered_and_paged() {
    let server = kondate_server();
    a_search_is_filtered_by_tag_and_category(&server);
    a_search_is_paged_without_loss_or_repetition(&server);
}

/// Proves the full-text search part of K19.
#[test]
fn the_catalog_is_searchable_by_all_and_a_book_by_its_owner() {
    let server = kondate_server();
    the_book_of_another_user_is_not_searched(&server);
    published_items_are_found_without_a_token(&server);
}

/// Proves the full-text search part of K19.
#[test]
fn invalid_search_queries_are_refused() {
    let server = kondate_server();
    an_invalid_search_query_is_refused_with_a_reason(&server);
    without_a_search_query_lists_are_those_of_the_design(&server);
    postings_have_no_routes(&server);
}

/// Everyone may search the catalog: many searches must not keep others waiting.
#[test]
fn a_caller_has_few_searches_at_the_same_time() {
    let (server, store) = instrumented_server();
    let (hana, anonymous) = (server.client_of_user("u_busy", "u_busy"), server.anonymous_client());
    let catalog = search_path("/catalog/recipes", "ハヤ");
    let is_of_catalog = |call: &Call| matches!(call, Call::Query(query) if query.partition == "TERM#RECIPE#は".into());
    let held = store.inject(Fault::pause_after().matching(is_of_catalog));
    std::thread::scope(|threads| {
        let searches = [(); 2].map(|()| threads.spawn(|| anonymous.get(&catalog).list()));
        while held.hits() < 2 {
            std::thread::yield_now();
        }
        let refused = anonymous.get(&catalog);
        refused.expect_problem(503, "overloaded");
        assert_eq!(refused.header("retry-after"), Some("1"));
        // What is not searched is not affected, and neither is a user's own book.
        assert_eq!(anonymous.get("/v1/catalog/recipes").status, 200);
        assert_eq!(hana.get(&search_path("/recipes", "ハヤ")).status, 200);
        held.remove();
        assert_eq!(searches.map(|search| search.join().expect("an answer").len()), [0, 0]);
    });
    assert_eq!(anonymous.get(&catalog).status, 200);
}

/// The path of a search, percent-encoded.
fn search_path(path: &str, question: &str) -> String {
    let hex: String = question.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/v1{path}?q={hex}")
}

fn titles(answer: &Response) -> Vec<String> {
    answer.list().iter().map(|item| text(item, "title").to_owned()).collect()
}

/// Waits until a search gives these titles, in this order.
#[track_caller]
fn finds(client: &Client<'_>, path: &str, question: &str, expected: &[&str]) {
    client.get_until(&search_path(path, question), |answer| titles(answer) == expected);
}

fn add(client: &Client<'_>, title: &str, more: Json) -> Json {
    let mut recipe = json!({ "title": title });
    recipe.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
    client.post("/v1/recipes", &recipe).expect_data(201)
}

pub(crate) fn a_recipe_is_found_by_any_part_of_its_title(server: &TestServer) {
    let hana = server.client_of_user("u_find", "u_find");
    add(&hana, "豚バラ肉のカレー", json!({}));
    add(&hana, "Egg Benedict", json!({}));
    for question in ["豚バラ肉のカレー", "豚", "の", "ー", "バラ肉", "カレー", "ｶﾚｰ", "かれー", "豚 カレー", "肉のかれ"]
    {
        finds(&hana, "/recipes", question, &["豚バラ肉のカレー"]);
    }
    for question in ["egg", "EGG", "Ｅｇｇ", "bene", "t", "egg, benedict!"] {
        finds(&hana, "/recipes", question, &["Egg Benedict"]);
    }
    for question in ["鶏", "ハヤシ", "waffle"] {
        finds(&hana, "/recipes", question, &[]);
    }
}

pub(crate) fn the_best_match_comes_first(server: &TestServer) {
    let hana = server.client_of_user("u_rank", "u_rank");
    add(&hana, "鶏の照り焼き", json!({ "description": "生姜を入れてもよい" }));
    add(&hana, "生姜湯", json!({}));
    add(&hana, "豚の炒め物", json!({ "ingredients": [{ "name": "生姜" }] }));
    add(&hana, "豚の生姜焼き", json!({}));
    add(&hana, "古漬け", json!({ "tags": ["生姜"] }));
    // More matches first, then the more important field, then the newest.
    let all = ["豚の生姜焼き", "生姜湯", "古漬け", "豚の炒め物", "鶏の照り焼き"];
    finds(&hana, "/recipes", "生姜", &all);
    // Words that stand together are one phrase; with a space between them, each may stand elsewhere.
    finds(&hana, "/recipes", "生姜焼き", &["豚の生姜焼き"]);
    finds(&hana, "/recipes", "生姜焼", &["豚の生姜焼き"]);
    finds(&hana, "/recipes", "生姜 焼き", &["豚の生姜焼き", "鶏の照り焼き"]);
    let two = hana.get(&format!("{}&limit=2", search_path("/recipes", "生姜")));
    assert_eq!(titles(&two), all[..2]);
    let five = hana.get(&format!("{}&limit=5", search_path("/recipes", "生姜")));
    assert_eq!((titles(&five).len(), five.body.get("nextCursor")), (5, None));
}

pub(crate) fn a_phrase_is_found_where_its_letters_stand_together(server: &TestServer) {
    let hana = server.client_of_user("u_phrase", "u_phrase");
    for title in ["しょうゆラーメン", "しょうがのスープ", "京都の湯どうふ"] {
        add(&hana, title, json!({}));
    }
    finds(&hana, "/recipes", "しょうが", &["しょうがのスープ"]);
    finds(&hana, "/recipes", "しょうゆ", &["しょうゆラーメン"]);
    finds(&hana, "/recipes", "しょう", &["しょうがのスープ", "しょうゆラーメン"]);
    finds(&hana, "/recipes", "スープしょうが", &[]);
    finds(&hana, "/recipes", "スープ しょうが", &["しょうがのスープ"]);
}

pub(crate) fn words_are_found_in_other_spellings(server: &TestServer) {
    let hana = server.client_of_user("u_words", "u_words");
    let salmon = json!([{ "name": "紅鮭" }]);
    add(&hana, "お茶漬け", json!({ "ingredients": salmon }));
    for title in ["サケのムニエル", "卵焼き", "玉子サンド", "たまごスープ", "玉ねぎのマリネ"]
    {
        add(&hana, title, json!({}));
    }
    for question in ["卵", "玉子", "たまご", "タマゴ", "tamago", "ＴＡＭＡＧＯ"] {
        finds(&hana, "/recipes", question, &["たまごスープ", "玉子サンド", "卵焼き"]);
    }
    for question in ["鮭", "さけ", "サケ", "sake"] {
        finds(&hana, "/recipes", question, &["サケのムニエル", "お茶漬け"]);
    }
    finds(&hana, "/recipes", "玉子焼き", &["卵焼き"]);
    finds(&hana, "/recipes", "tamanegi", &["玉ねぎのマリネ"]);
    finds(&hana, "/recipes", "葱", &[]);
}

pub(crate) fn a_search_is_filtered_by_tag_and_category(server: &TestServer) {
    let hana = server.client_of_user("u_filter", "u_filter");
    hana.post("/v1/profile", &json!({ "displayName": "Hana" })).expect_data(201);
    add(&hana, "肉じゃが", json!({ "tags": ["和食", "煮物"], "categoryId": "c_01" }));
    add(&hana, "筑前煮", json!({ "tags": ["和食"], "categoryId": "c_02" }));
    add(&hana, "和食のカレー", json!({ "tags": ["和食とカレー"] }));
    let stew = add(&hana, "カレー煮込み", json!({ "tags": ["カレー"], "categoryId": "c_01" }));
    let find = |client: &Client<'_>, path: &str, expected: &[&str]| {
        client.get_until(path, |answer| titles(answer) == expected);
    };
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let (japanese, curry, meat) = (encoded("和食"), encoded("かれー"), encoded("煮"));
    find(&hana, &format!("/v1/recipes?tag={japanese}"), &["筑前煮", "肉じゃが"]);
    find(&hana, &format!("/v1/recipes?tag={curry}"), &["カレー煮込み"]);
    find(&hana, "/v1/recipes?categoryId=c_01", &["カレー煮込み", "肉じゃが"]);
    find(&hana, "/v1/recipes?categoryId=c_01&order=asc", &["肉じゃが", "カレー煮込み"]);
    find(&hana, "/v1/recipes?categoryId=c", &[]);
    find(&hana, &format!("/v1/recipes?q={meat}&categoryId=c_01"), &["カレー煮込み", "肉じゃが"]);
    find(&hana, &format!("/v1/recipes?q={meat}&tag={japanese}"), &["筑前煮", "肉じゃが"]);
    find(&hana, &format!("/v1/recipes?q={meat}&tag={japanese}&categoryId=c_01"), &["肉じゃが"]);
    // Both follow changes.
    let path = format!("/v1/recipes/{}", text(&stew, "recipeId"));
    hana.patch(&path, &json!({ "categoryId": "c_02", "tags": ["和食"] })).expect_data(200);
    find(&hana, "/v1/recipes?categoryId=c_02", &["カレー煮込み", "筑前煮"]);
    find(&hana, "/v1/recipes?categoryId=c_01", &["肉じゃが"]);
    find(&hana, &format!("/v1/recipes?tag={curry}"), &[]);
    // The catalog has tags, and no categories: those are the user's own.
    hana.post(&format!("{path}/publish"), &json!({})).expect_data(200);
    let anonymous = server.anonymous_client();
    find(&anonymous, &format!("/v1/catalog/recipes?tag={japanese}"), &["カレー煮込み"]);
    find(&anonymous, &format!("/v1/catalog/recipes?tag={curry}"), &[]);
    let refused = anonymous.get("/v1/catalog/recipes?categoryId=c_02");
    assert_eq!(refused.expect_problem(400, "bad_parameter"), ["categoryId"]);
    let set = json!({ "title": "和定食", "tags": ["和食"], "categoryId": "c_09" });
    hana.post("/v1/sets", &set).expect_data(201);
    find(&hana, &format!("/v1/sets?tag={japanese}&categoryId=c_09"), &["和定食"]);
}

pub(crate) fn a_search_is_paged_without_loss_or_repetition(server: &TestServer) {
    let hana = server.client_of_user("u_pages", "u_pages");
    let soup = |n: usize| match n % 3 {
        0 => add(&hana, &format!("味噌汁{n}"), json!({})),
        1 => add(&hana, &format!("豆腐{n}"), json!({ "ingredients": [{ "name": "みそ" }] })),
        _ => add(&hana, &format!("大根{n}"), json!({ "description": "ミソも合う" })),
    };
    let made: Vec<_> = (0..14).map(soup).collect();
    let path = format!("{}&limit=3", search_path("/recipes", "味噌"));
    let all = hana.get_until(&format!("{}&limit=100", search_path("/recipes", "味噌")), |all| all.list().len() == 14);
    let (all, mut found, mut cursor) = (titles(&all), Vec::new(), String::new());
    for page in 0.. {
        let answer = hana.get(&format!("{path}{cursor}"));
        assert!(answer.list().len() <= 3);
        found.extend(titles(&answer));
        let Some(next) = answer.body.get("nextCursor").and_then(Json::as_str) else { break };
        cursor = format!("&cursor={next}");
        // New ones, and ones that are gone, move no others.
        soup(20 + page);
        if page == 1 {
            assert_eq!(hana.delete(&format!("/v1/recipes/{}", text(&made[2], "recipeId"))).status, 204);
            // A cursor is of one question, one order and one caller.
            let other = server.client_of_user("u_other", "u_other");
            for refused in [
                hana.get(&format!("{}{cursor}", search_path("/recipes", "みそ"))),
                hana.get(&format!("{path}&order=asc{cursor}")),
                hana.get(&format!("{path}&categoryId=c_01{cursor}")),
                hana.get(&format!("{}{cursor}", search_path("/sets", "味噌"))),
                other.get(&format!("{path}{cursor}")),
                hana.get(&format!("/v1/recipes?limit=3{cursor}")),
            ] {
                refused.expect_problem(400, "bad_cursor");
            }
        }
    }
    found.retain(|title| all.contains(title));
    let expected: Vec<_> = all.iter().filter(|title| *title != "大根2").cloned().collect();
    assert_eq!(found, expected);
}

pub(crate) fn changed_items_are_found_by_their_new_text(server: &TestServer) {
    let hana = server.client_of_user("u_change", "u_change");
    let made = add(&hana, "肉じゃが", json!({ "tags": ["煮物"] }));
    let path = format!("/v1/recipes/{}", text(&made, "recipeId"));
    finds(&hana, "/recipes", "じゃが", &["肉じゃが"]);
    hana.patch(&path, &json!({ "title": "ビーフシチュー", "tags": ["洋食"] })).expect_data(200);
    finds(&hana, "/recipes", "シチュー", &["ビーフシチュー"]);
    finds(&hana, "/recipes", "洋食", &["ビーフシチュー"]);
    for question in ["肉じゃが", "煮物"] {
        finds(&hana, "/recipes", question, &[]);
    }
    assert_eq!(hana.delete(&path).status, 204);
    // A deleted item is not found, even while its postings still exist.
    assert!(titles(&hana.get(&search_path("/recipes", "シチュー"))).is_empty());
}

pub(crate) fn sets_are_found_by_their_text(server: &TestServer) {
    let hana = server.client_of_user("u_sets", "u_sets");
    let items = json!([{ "recipeId": "r_01", "title": "茶碗蒸し" }]);
    hana.post("/v1/sets", &json!({ "title": "お正月", "items": items, "tags": ["和食"] })).expect_data(201);
    add(&hana, "茶碗蒸し", json!({}));
    for question in ["正月", "茶碗蒸し", "和食", "蒸"] {
        finds(&hana, "/sets", question, &["お正月"]);
    }
    finds(&hana, "/recipes", "茶碗蒸し", &["茶碗蒸し"]);
    finds(&hana, "/recipes", "正月", &[]);
}

pub(crate) fn the_book_of_another_user_is_not_searched(server: &TestServer) {
    // User ids with a common prefix, and recipes with the same id.
    let [one, ten] = ["u_1", "u_10"].map(|user| server.client_of_user(user, user));
    for (user, title) in [("u_1", "秘密の筑前煮"), ("u_10", "普通の筑前煮")] {
        create_item(server, user, "recipe", &json!({ "recipeId": "r_77", "title": title }));
    }
    finds(&one, "/recipes", "筑前煮", &["秘密の筑前煮"]);
    finds(&ten, "/recipes", "筑前煮", &["普通の筑前煮"]);
    finds(&ten, "/recipes", "秘", &[]);
    for client in [&ten, &server.anonymous_client()] {
        finds(client, "/catalog/recipes", "筑前煮", &[]);
    }
    server.anonymous_client().get(&search_path("/recipes", "筑前煮")).expect_problem(401, "no_token");
}

pub(crate) fn published_items_are_found_without_a_token(server: &TestServer) {
    let (hana, anonymous) = (server.client_of_user("u_publish", "u_publish"), server.anonymous_client());
    hana.post("/v1/profile", &json!({ "displayName": "Hana" })).expect_data(201);
    let made = add(&hana, "鯖缶の冷や汁", json!({ "memo": "祖母の味" }));
    let path = format!("/v1/recipes/{}", text(&made, "recipeId"));
    finds(&hana, "/recipes", "冷や汁", &["鯖缶の冷や汁"]);
    finds(&anonymous, "/catalog/recipes", "冷や汁", &[]);

    hana.post(&format!("{path}/publish"), &json!({})).expect_data(200);
    for question in ["冷や汁", "鯖", "サバ缶の冷や汁"] {
        finds(&anonymous, "/catalog/recipes", question, &["鯖缶の冷や汁"]);
    }
    finds(&server.client_of_user("u_other", "u_other"), "/catalog/recipes", "鯖缶", &["鯖缶の冷や汁"]);
    // Unpublished items are not found there.
    finds(&anonymous, "/catalog/recipes", "祖母", &[]);

    let set = json!({ "title": "夏の宮崎定食", "items": [{ "recipeId": "r_01", "title": "鯖缶の冷や汁" }] });
    let set = hana.post("/v1/sets", &set).expect_data(201);
    hana.post(&format!("/v1/sets/{}/publish", text(&set, "setId")), &json!({})).expect_data(200);
    finds(&anonymous, "/catalog/sets", "宮崎定食", &["夏の宮崎定食"]);
    finds(&anonymous, "/catalog/sets", "鯖缶", &["夏の宮崎定食"]);

    // Changed, published again, and withdrawn.
    hana.patch(&path, &json!({ "title": "鯵の冷や汁" })).expect_data(200);
    finds(&hana, "/recipes", "鯵", &["鯵の冷や汁"]);
    finds(&anonymous, "/catalog/recipes", "鯵", &[]);
    hana.post(&format!("{path}/publish"), &json!({})).expect_data(200);
    finds(&anonymous, "/catalog/recipes", "鯵", &["鯵の冷や汁"]);
    finds(&anonymous, "/catalog/recipes", "鯖缶", &[]);
    assert_eq!(hana.post_empty(&format!("{path}/withdraw")).status, 204);
    assert!(titles(&anonymous.get(&search_path("/catalog/recipes", "冷や汁"))).is_empty());
    finds(&hana, "/recipes", "鯵", &["鯵の冷や汁"]);
}

pub(crate) fn an_invalid_search_query_is_refused_with_a_reason(server: &TestServer) {
    let hana = server.client_of_user("u_wrong", "u_wrong");
    let long = "あ".repeat(101);
    for path in ["/recipes", "/sets", "/catalog/recipes", "/catalog/sets"] {
        let check = |query: &str, parameter: &str| {
            let answer = hana.get(&format!("/v1{path}?{query}"));
            assert_eq!(answer.expect_problem(400, "bad_parameter"), [parameter], "{path}?{query}");
        };
        check("q=", "q");
        assert!(hana.get(&format!("/v1{path}?q=%20%E3%80%81!")).list().is_empty());
        check("q=a&q=b", "q");
        hana.get(&format!("/v1{path}?q=a&cursor=x")).expect_problem(400, "bad_cursor");
        check("tag=", "tag");
        check("q=a&tag=b&tag=c", "tag");
        check(&format!("tag={}", "b".repeat(51)), "tag");
        assert!(hana.get(&format!("/v1{path}?tag={}", "b".repeat(50))).list().is_empty());
        assert!(hana.get(&format!("/v1{path}?tag=%21")).list().is_empty());
        check("q=a&order=up", "order");
        check("q=a&limit=0", "limit");
        check("q=a&limit=1001", "limit");
        check("q=a&title=b", "title");
        check(search_path("", &long).trim_start_matches("/v1?"), "q");
        assert!(hana.get(&search_path(path, &"あ".repeat(100))).list().is_empty());
    }
}

pub(crate) fn without_a_search_query_lists_are_those_of_the_design(server: &TestServer) {
    let hana = server.client_of_user("u_list", "u_list");
    for title in ["一", "二", "三"] {
        add(&hana, title, json!({}));
    }
    assert_eq!(titles(&hana.get("/v1/recipes")), ["三", "二", "一"]);
    assert_eq!(titles(&hana.get("/v1/recipes?order=asc")), ["一", "二", "三"]);
    let first = hana.get("/v1/recipes?limit=2");
    let rest = hana.get(&format!("/v1/recipes?limit=2&cursor={}", text(&first.body, "nextCursor")));
    assert_eq!((titles(&first), titles(&rest)), (vec!["三".into(), "二".into()], vec!["一".into()]));
    assert_eq!(hana.get("/v1/recipes?limit=1001").expect_problem(400, "bad_parameter"), ["limit"]);
    assert_eq!(hana.get("/v1/recipes?colour=red").expect_problem(400, "bad_parameter"), ["colour"]);
    hana.get("/v1/recipes?cursor=x").expect_problem(400, "bad_cursor");
    assert_eq!(server.anonymous_client().get("/v1/catalog/recipes?limit=1").status, 200);
    assert_eq!(server.anonymous_client().get("/v1/catalog/sets").status, 200);
}

pub(crate) fn postings_have_no_routes(server: &TestServer) {
    let hana = server.client_of_user("u_raw", "u_raw");
    let made = add(&hana, "秋刀魚", json!({}));
    let id = text(&made, "recipeId");
    finds(&hana, "/recipes", "秋刀", &["秋刀魚"]);
    let posting = json!({ "kind": "RECIPE", "term": "秋刀", "targetId": id, "weight": 4 });
    for path in ["/v1/search-terms", "/v1/search-terms-beginning-with", "/v1/catalog-terms", "/v1/catalog-term"] {
        assert_eq!(hana.get(&format!("{path}?kind=RECIPE&term=%E7%A7%8B&initial=%E7%A7%8B")).status, 404, "{path}");
        assert_eq!(hana.post(path, &posting).status, 404, "{path}");
        assert_eq!(hana.delete(&format!("{path}/RECIPE/%E7%A7%8B%E5%88%80/{id}")).status, 404, "{path}");
    }
}
