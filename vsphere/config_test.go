package vsphere

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

func TestInvalidSettingsAreRefusedByName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	good := Config{Config: session.Config{Host: "vc.example.com", User: "u", Password: "secret"}}
	print := strings.Repeat("AB:", 31) + "AB"
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string // "" is valid
	}{
		"a host alone":                   {func(c *Config) {}, ""},
		"a host and port":                {func(c *Config) { c.Host = "vc:8443" }, ""},
		"a URL":                          {func(c *Config) { c.Host = "https://vc/sdk" }, ""},
		"no host":                        {func(c *Config) { c.Host = "" }, "--host"},
		"a host that is no URL":          {func(c *Config) { c.Host = "https://a b" }, "--host"},
		"a scheme of its own":            {func(c *Config) { c.Host = "ftp://vc" }, "--host"},
		"a password in the URL":          {func(c *Config) { c.Host = "https://u:hidden@vc/sdk" }, "--host"},
		"http without --insecure":        {func(c *Config) { c.Host = "http://vc" }, "--insecure"},
		"http with --insecure":           {func(c *Config) { c.Host, c.Insecure = "http://vc", true }, ""},
		"no user":                        {func(c *Config) { c.User = "" }, "--user"},
		"no password":                    {func(c *Config) { c.Password = "" }, "--password"},
		"user twice":                     {func(c *Config) { c.UserFile = "f" }, "--user-file"},
		"password twice":                 {func(c *Config) { c.PasswordFile = "f" }, "--password-file"},
		"a password file that can come":  {func(c *Config) { c.Password, c.PasswordFile = "", "/not/yet" }, ""},
		"a thumbprint":                   {func(c *Config) { c.Thumbprint = print }, ""},
		"a thumbprint in small letters":  {func(c *Config) { c.Thumbprint = strings.ToLower(print) }, ""},
		"a SHA-1 thumbprint":             {func(c *Config) { c.Thumbprint = print[:59] }, "--thumbprint"},
		"a thumbprint that is no hex":    {func(c *Config) { c.Thumbprint = strings.Repeat("xy:", 31) + "xy" }, "--thumbprint"},
		"insecure and a thumbprint":      {func(c *Config) { c.Thumbprint, c.Insecure = print, true }, "--thumbprint"},
		"insecure and a CA":              {func(c *Config) { c.CAFile, c.Insecure = empty, true }, "--ca-file"},
		"a CA and a thumbprint":          {func(c *Config) { c.CAFile, c.Thumbprint = empty, print }, "--ca-file and --thumbprint"},
		"a CA file that is not there":    {func(c *Config) { c.CAFile = "/not/there" }, "--ca-file"},
		"a CA file without certificates": {func(c *Config) { c.CAFile = empty }, "--ca-file"},
		"a nested folder":                {func(c *Config) { c.Folder = "platform/vms" }, ""},
		"a folder that climbs":           {func(c *Config) { c.Folder = "../vms" }, "--folder"},
		"a folder with a gap":            {func(c *Config) { c.Folder = "a//b" }, "--folder"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tc.change(&cfg)
			_, err := New(cfg)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("New refused the settings: %v", err)
			case tc.want != "" && err == nil:
				t.Errorf("New accepted the settings; want an error with %q", tc.want)
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("%q does not name %q", err, tc.want)
			case err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hidden")):
				t.Errorf("%q contains a password", err)
			}
		})
	}
}
