#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "io/file.h"

namespace satformer {
namespace {

void require(bool ok) {
  if (!ok) fail(ExitCode::internal, "libcrypto refuses SHA-256");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

std::string sha256_file(const std::string& path) {
  // Read in blocks: a mapping of a whole checkpoint would count as this process's memory.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail_errno("open", path, errno);
  std::vector<std::byte> block(std::size_t{1} << 20);
  Sha256 hash;
  while (const std::size_t size = std::fread(block.data(), 1, block.size(), file.get())) {
    hash.update(std::span<const std::byte>(block.data(), size));
  }
  if (std::ferror(file.get())) fail_errno("read", path, errno);
  return hash.hex();
}

}  // namespace satformer
