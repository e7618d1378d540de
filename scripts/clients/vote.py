"""Votes with the generated Python client against a real server.

    python vote.py ADMIN ROUTER   with the admin token in BALLAST_TOKEN

scripts/clients/check generates the packages `admin` and `voters` beside this file from
the OpenAPI documents.
"""

import io
import json
import os
import sys
from datetime import datetime, timezone
from urllib.parse import urlsplit

from admin import AuthenticatedClient as Operator
from admin.api.keys import create_key
from admin.api.tenants import create_tenant
from admin.models import NewKey, NewTenant
from voters import AuthenticatedClient
from voters.api.polls import close_poll, create_poll, export_votes, list_polls
from voters.api.results import get_results, watch_results
from voters.api.votes import cast_vote, cast_vote_by_post, cast_votes, get_vote
from voters.models import NewPoll, Problem, VoteOutcome, VoterBody
from voters.types import File

TENANT = "python"


def main():
    admin, router = sys.argv[1:]
    client = AuthenticatedClient(base_url=router, token=make_key(admin), prefix="",
                                 auth_header_name="X-API-Key")
    poll, (tabs, spaces) = make_poll(client)
    vote_one_by_one(client, poll, tabs, spaces)
    vote_in_a_stream(client, poll, spaces)
    read_results(client, poll, tabs)
    read_a_closed_poll(client, poll, tabs)
    print("the Python client voted: 5 voters, by header, by body and in a stream")


def make_key(admin):
    """An operator makes a tenant and a key."""
    address = urlsplit(admin)
    operator = Operator(base_url=f"{address.scheme}://{address.netloc}",
                        token=os.environ["BALLAST_TOKEN"])
    expect(201, create_tenant.sync_detailed(client=operator, body=NewTenant(tenant_id=TENANT)))
    made = create_key.sync_detailed(TENANT, client=operator, body=NewKey())
    return expect(201, made).key


def make_poll(client):
    closing = datetime(2099, 1, 1, tzinfo=timezone.utc)
    new = NewPoll(items=["Tabs", "Spaces"], expiration_time=closing)
    made = expect(201, create_poll.sync_detailed(client=client, body=new,
                                                 idempotency_key="the first poll"))
    listed = expect(200, list_polls.sync_detailed(client=client, limit=10))
    equal([poll.poll_id for poll in listed.items], [made.poll_id])
    return made.poll_id, [item.item_id for item in made.items]


def vote_one_by_one(client, poll, tabs, spaces):
    """The voter is in the header, or in the body."""
    def by_header(voter, item=tabs, cast=cast_vote):
        return expect(200, cast.sync_detailed(poll, item, client=client, voter_id=voter))

    equal(by_header("ada").outcome, VoteOutcome.COUNTED)
    equal(by_header("ada").outcome, VoteOutcome.ALREADY)
    equal(by_header("bob", spaces, cast_vote_by_post).outcome, VoteOutcome.COUNTED)
    body = cast_vote.sync_detailed(poll, tabs, client=client, body=VoterBody(voter_id="Zoë"))
    equal(expect(200, body).to_dict(),
          {"pollID": poll, "itemID": tabs, "voterID": "Zoë", "outcome": "counted"})
    expect_problem(400, "malformed-request", cast_vote.sync_detailed(poll, tabs, client=client))


def vote_in_a_stream(client, poll, item):
    votes = [{"pollID": poll, "itemID": item, "voterID": voter} for voter in ("carl", "dora", "ada")]
    lines = "".join(json.dumps(vote) + "\n" for vote in votes)
    answer = cast_votes.sync_detailed(client=client, body=File(io.BytesIO(lines.encode())))
    outcomes = [json.loads(line) for line in expect(200, answer).payload]
    equal([outcome["outcome"] for outcome in outcomes], ["counted", "counted", "refused"])
    equal(outcomes[2]["code"], "already-voted")


def read_results(client, poll, tabs):
    chosen = expect(200, get_vote.sync_detailed(poll, "Zoë", client=client))
    equal(chosen.item_i_ds, [tabs])
    results = expect(200, get_results.sync_detailed(poll, client=client, cache_control="no-cache"))
    equal([(item.item_name, item.votes_count) for item in results.items],
          [("Spaces", 3), ("Tabs", 2)])
    equal(results.voters, 5)


def read_a_closed_poll(client, poll, tabs):
    expect(200, close_poll.sync_detailed(poll, client=client))
    late = cast_vote.sync_detailed(poll, tabs, client=client, voter_id="eve")
    expect_problem(409, "poll-closed", late)
    events = expect(200, watch_results.sync_detailed(poll, client=client))
    assert "event: closed\n" in events, events
    rows = expect(200, export_votes.sync_detailed(poll, client=client)).payload.readlines()
    equal(len(rows), 5)


def expect(status, answer):
    assert answer.status_code == status, (answer.status_code, answer.content)
    return answer.parsed


def expect_problem(status, code, answer):
    problem = expect(status, answer)
    assert isinstance(problem, Problem), problem
    equal(problem.code, code)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


main()
