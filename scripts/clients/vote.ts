// Votes with the generated TypeScript client against a real server.
//
//   node vote.js ADMIN ROUTER   with the admin token in BALLAST_TOKEN
//
// scripts/clients/check generates admin.ts and voters.ts from the OpenAPI documents
// and checks the types of this file before it runs.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths as AdminPaths } from "./admin.js";
import type { components, paths } from "./voters.js";

const [admin, router] = process.argv.slice(2);
const token = process.env["BALLAST_TOKEN"];
assert(admin && router && token, "usage: node vote.js ADMIN ROUTER, with BALLAST_TOKEN");

type Outcome = components["schemas"]["Outcome"];

/** What was expected to succeed. */
function ok<T>(answer: { data?: T; error?: unknown; response: Response }): T {
    assert(answer.data !== undefined, `${answer.response.status}: ${JSON.stringify(answer.error)}`);
    return answer.data;
}

/** The code of what was expected to fail with a problem document. */
function problem(answer: { error?: { code: string }; response: Response }): string {
    const kind = answer.response.headers.get("content-type");
    assert.equal(kind, "application/problem+json");
    assert(answer.error, `${answer.response.status}: no error`);
    return `${answer.response.status} ${answer.error.code}`;
}

// --- an operator makes a tenant and a key --------------------------------------

const operator = createClient<AdminPaths>({
    baseUrl: new URL(admin).origin,
    headers: { Authorization: `Bearer ${token}` },
});
const tenantID = "typescript";
ok(await operator.POST("/admin/v1/tenants", { body: { tenantID } }));
const created = await operator.POST("/admin/v1/tenants/{tenantID}/keys", {
    params: { path: { tenantID } },
    body: {},
});
const key: string = ok(created).key;

// --- an application makes a poll -----------------------------------------------

const client = createClient<paths>({ baseUrl: router, headers: { "X-API-Key": key } });
const made = await client.POST("/polls", {
    params: { header: { "Idempotency-Key": "the first poll" } },
    body: { items: ["Tabs", { itemName: "Spaces" }], expirationTime: "2099-01-01T00:00:00Z" },
});
const { pollID: poll, items } = ok(made);
const [tabs, spaces] = items.map((item) => item.itemID);
assert(tabs && spaces);
const listed = ok(await client.GET("/polls", { params: { query: { limit: 10 } } }));
assert.deepEqual(listed.items.map((one) => one.pollID), [poll]);

// --- and votes: the voter in the header, or in the body ------------------------

const vote = "/polls/{poll}/votes/{item}";
const path = { poll, item: tabs };
const header = await client.PATCH(vote, { params: { path, header: { "Voter-Id": "ada" } } });
assert.equal(ok(header).outcome, "counted");
assert.equal(header.response.headers.get("etag"), '"1"');
const again = await client.PATCH(vote, { params: { path, header: { "Voter-Id": "ada" } } });
assert.equal(ok(again).outcome, "already");
const body = await client.PATCH(vote, { params: { path }, body: { voterID: "Zoë" } });
assert.deepEqual(ok(body), { pollID: poll, itemID: tabs, voterID: "Zoë", outcome: "counted" });
const posted = await client.POST(vote, {
    params: { path: { poll, item: spaces }, header: { "Voter-Id": "bob" } },
});
assert.equal(ok(posted).outcome, "counted");

// @ts-expect-error A body may be absent, but not null.
void (() => client.PATCH(vote, { params: { path }, body: null }));
// @ts-expect-error A vote names its item.
void (() => client.PATCH(vote, { params: { path: { poll } } }));
const nobody = await client.PATCH(vote, { params: { path } });
assert.equal(problem(nobody), "400 malformed-request");

// --- many votes in one request -------------------------------------------------

const lines = ["carl", "dora", "ada"].map((voterID) => ({ pollID: poll, itemID: spaces, voterID }));
const many = await client.POST("/votes", {
    body: lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
    bodySerializer: (text) => text,
    headers: { "Content-Type": "application/x-ndjson" },
    parseAs: "text",
});
const outcomes = ok(many)
    .trimEnd()
    .split("\n")
    .map((line): Outcome => JSON.parse(line));
assert.deepEqual(outcomes.map((one) => one.outcome), ["counted", "counted", "refused"]);
assert.equal(outcomes[2]?.code, "already-voted");

// --- what was counted ----------------------------------------------------------

const chosen = await client.GET("/polls/{poll}/voters/{voter}", {
    params: { path: { poll, voter: "Zoë" } },
});
assert.deepEqual(ok(chosen).itemIDs, [tabs]);
const results = await client.GET("/polls/{poll}/votes", {
    params: { path: { poll }, header: { "Cache-Control": "no-cache" } },
});
assert.deepEqual(
    ok(results).items.map((item) => [item.itemName, item.votesCount]),
    [["Spaces", 3], ["Tabs", 2]],
);
assert.equal(ok(results).voters, 5);

ok(await client.POST("/polls/{poll}/close", { params: { path: { poll } } }));
const late = await client.PATCH(vote, { params: { path, header: { "Voter-Id": "eve" } } });
assert.equal(problem(late), "409 poll-closed");
const live = await client.GET("/polls/{poll}/votes/live", {
    params: { path: { poll } },
    parseAs: "text",
});
assert.match(ok(live), /^event: ?closed$/m);
const rows = await client.GET("/polls/{poll}/export", { params: { path: { poll } }, parseAs: "text" });
assert.equal(ok(rows).trimEnd().split("\n").length, 5);
console.log("the TypeScript client voted: 5 voters, by header, by body and in a stream");
