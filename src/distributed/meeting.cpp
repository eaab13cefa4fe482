#include <nlohmann/json.hpp>

#include "base/json.h"
#include "distributed/engines.h"

namespace satformer {
namespace {

// Of the ranks that are still awaited.
std::string missing(const std::vector<Endpoint>& endpoints) {
  std::string names;
  int count = 0;
  for (std::size_t rank = 1; rank < endpoints.size(); ++rank) {
    if (endpoints[rank].port != 0) continue;
    if (++count <= 8) names += concat(names.empty() ? "" : ", ", rank);
  }
  return concat(count == 1 ? "rank " : "ranks ", names, count > 8 ? concat(" and ", count - 8, " more") : "");
}

// A hello from one of our ranks, or nothing.
Json hello_of(const Socket& link, const std::string& token, int size) {
  try {
    Json hello = Json::parse(link.receive(after_seconds(5), "a rank"), nullptr, false);
    if (!hello.is_object() || hello.value("token", "") != token) return {};
    const int rank = hello.value("rank", -1);
    return rank > 0 && rank < size ? hello : Json();
  } catch (const std::exception&) {
    return {};
  }
}

Meeting wait_at_root(int size, const Endpoint& root, const Listener& listener, Deadline deadline) {
  Meeting meeting;
  meeting.endpoints.resize(static_cast<std::size_t>(size));
  meeting.endpoints[0] = root;
  std::vector<Socket> links(static_cast<std::size_t>(size));
  for (int come = 1; come < size;) {
    Socket link;
    try {
      link = listener.accept(deadline, "a rank");
    } catch (const Error&) {
      fail(ExitCode::system, missing(meeting.endpoints), " of ", size, " did not arrive in time (--timeout)");
    }
    const Json hello = hello_of(link, root.token, size);
    if (hello.is_null()) continue;  // a stranger
    const auto rank = hello["rank"].get<std::size_t>();
    if (meeting.endpoints[rank].port != 0) fail(ExitCode::system, "two processes say that they are rank ", rank);
    meeting.endpoints[rank] = Endpoint::from_text(hello.value("endpoint", ""));
    links[rank] = std::move(link);
    ++come;
  }
  Json all = Json::array();
  for (const Endpoint& endpoint : meeting.endpoints) all.push_back(endpoint.to_text());
  for (std::size_t rank = 1; rank < links.size(); ++rank) {
    links[rank].send(all.dump(), deadline, concat("rank ", rank));
    meeting.links.push_back(std::move(links[rank]));
  }
  return meeting;
}

}  // namespace

Meeting meet_at_root(int rank, int size, const Endpoint& root, const Listener& listener, Deadline deadline) {
  if (rank == 0) return wait_at_root(size, root, listener, deadline);
  Meeting meeting;
  Socket link = connect_to(root, deadline, "rank 0");
  Endpoint own = endpoint_of(listener);
  own.token = root.token;
  link.send(Json{{"token", root.token}, {"rank", rank}, {"endpoint", own.to_text()}}.dump(), deadline, "rank 0");
  const Json all = Json::parse(link.receive(deadline, "rank 0, or another rank that it waits for,"), nullptr, false);
  if (!all.is_array() || all.size() != static_cast<std::size_t>(size)) {
    fail(ExitCode::system, "rank 0 counts ", all.size(), " ranks, rank ", rank, " counts ", size);
  }
  for (const Json& text : all) meeting.endpoints.push_back(Endpoint::from_text(text.get<std::string>()));
  meeting.links.push_back(std::move(link));
  return meeting;
}

}  // namespace satformer
