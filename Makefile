# Everything here is a short name for a command that also works by itself.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
INSTALL ?= install

target := $(or $(CARGO_TARGET_DIR),target)
binary := $(target)/release/ai-jail
completions := $(target)/completions

bindir := $(DESTDIR)$(PREFIX)/bin
mandir := $(DESTDIR)$(PREFIX)/share/man/man1
docdir := $(DESTDIR)$(PREFIX)/share/doc/ai-jail
bashdir := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

.PHONY: all build check test bench install uninstall

all: build

build:
	$(CARGO) build --release --locked
	mkdir -p $(completions)
	for shell in bash zsh fish; do $(binary) completions $$shell > $(completions)/ai-jail.$$shell || exit 1; done

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	@if $(CARGO) deny --version > /dev/null 2>&1; then $(CARGO) deny check; \
	else echo "cargo deny is not installed: licences and advisories were not checked"; fi

test:
	scripts/test

bench:
	$(CARGO) build --release --locked
	scripts/bench-launch --binary $(binary)

# Installs what `make build` made, so that it can run under sudo without a Rust toolchain.
install:
	@test -x $(binary) && test -d $(completions) || { echo "nothing is built yet: run make build first" >&2; exit 1; }
	$(INSTALL) -D -m 0755 $(binary) $(bindir)/ai-jail
	for page in man/*.1; do $(INSTALL) -D -m 0644 $$page $(mandir)/$${page##*/} || exit 1; done
	$(INSTALL) -D -m 0644 $(completions)/ai-jail.bash $(bashdir)/ai-jail
	$(INSTALL) -D -m 0644 $(completions)/ai-jail.zsh $(zshdir)/_ai-jail
	$(INSTALL) -D -m 0644 $(completions)/ai-jail.fish $(fishdir)/ai-jail.fish
	for file in LICENSE-APACHE LICENSE-MIT README.md SECURITY.md CHANGELOG.md; do \
		$(INSTALL) -D -m 0644 $$file $(docdir)/$$file || exit 1; done

uninstall:
	rm -f $(bindir)/ai-jail $(bashdir)/ai-jail $(zshdir)/_ai-jail $(fishdir)/ai-jail.fish
	for page in man/*.1; do rm -f $(mandir)/$${page##*/}; done
	rm -rf $(docdir)
