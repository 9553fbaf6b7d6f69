package vsphere

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsThatCannotBeRightAreRefusedByName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{Host: "vc.example.com", User: "u", Password: "secret"}
	print := strings.Repeat("AB:", 31) + "AB"
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string // "" is valid
	}{
		"a host alone":                   {func(c *Config) {}, ""},
		"a host and port":                {func(c *Config) { c.Host = "vc:8443" }, ""},
		"a URL":                          {func(c *Config) { c.Host = "https://vc/sdk" }, ""},
		"no host":                        {func(c *Config) { c.Host = "" }, "Host"},
		"a host that is no URL":          {func(c *Config) { c.Host = "https://a b" }, "Host"},
		"a scheme of its own":            {func(c *Config) { c.Host = "ftp://vc" }, "Host"},
		"a password in the URL":          {func(c *Config) { c.Host = "https://u:hidden@vc/sdk" }, "Host"},
		"http without --insecure":        {func(c *Config) { c.Host = "http://vc" }, "--insecure"},
		"http with --insecure":           {func(c *Config) { c.Host, c.Insecure = "http://vc", true }, ""},
		"no user":                        {func(c *Config) { c.User = "" }, "User"},
		"no password":                    {func(c *Config) { c.Password = "" }, "Password"},
		"user twice":                     {func(c *Config) { c.UserFile = "f" }, "User and UserFile"},
		"password twice":                 {func(c *Config) { c.PasswordFile = "f" }, "Password and PasswordFile"},
		"a password file that may come":  {func(c *Config) { c.Password, c.PasswordFile = "", "/not/yet" }, ""},
		"a thumbprint":                   {func(c *Config) { c.Thumbprint = print }, ""},
		"a thumbprint in small letters":  {func(c *Config) { c.Thumbprint = strings.ToLower(print) }, ""},
		"a SHA-1 thumbprint":             {func(c *Config) { c.Thumbprint = print[:59] }, "Thumbprint"},
		"a thumbprint that is no hex":    {func(c *Config) { c.Thumbprint = strings.Repeat("xy:", 31) + "xy" }, "Thumbprint"},
		"insecure and a thumbprint":      {func(c *Config) { c.Thumbprint, c.Insecure = print, true }, "Thumbprint"},
		"insecure and a CA":              {func(c *Config) { c.CAFile, c.Insecure = empty, true }, "CAFile"},
		"a CA and a thumbprint":          {func(c *Config) { c.CAFile, c.Thumbprint = empty, print }, "CAFile and Thumbprint"},
		"a CA file that is not there":    {func(c *Config) { c.CAFile = "/not/there" }, "CAFile"},
		"a CA file without certificates": {func(c *Config) { c.CAFile = empty }, "CAFile"},
		"a nested folder":                {func(c *Config) { c.Folder = "platform/vms" }, ""},
		"a folder that climbs":           {func(c *Config) { c.Folder = "../vms" }, "Folder"},
		"a folder with a gap":            {func(c *Config) { c.Folder = "a//b" }, "Folder"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tc.change(&cfg)
			_, err := newClient(cfg)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && err == nil:
				t.Error("taken")
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("%q does not name %q", err, tc.want)
			case err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hidden")):
				t.Errorf("%q holds a password", err)
			}
		})
	}
}
