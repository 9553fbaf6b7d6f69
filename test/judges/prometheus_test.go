package judges

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	discoveryhttp "github.com/prometheus/prometheus/discovery/http"
	"go.yaml.in/yaml/v2"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// discover has Prometheus' code read the targets of an entry of http_sd_configs, and returns the labels of each target by its address.
func discover(t *testing.T, settings string) (map[string]map[string]string, error) {
	t.Helper()
	var c discoveryhttp.SDConfig
	must.Succeed(t, yaml.UnmarshalStrict([]byte(settings), &c))
	registry := prometheus.NewRegistry()
	refresh := discovery.NewRefreshMetrics(registry)
	metrics := c.NewDiscovererMetrics(registry, refresh)
	must.Succeed(t, metrics.Register())
	d, err := discoveryhttp.NewDiscovery(&c, discovery.DiscovererOptions{Metrics: metrics, SetName: "vm-nodes"})
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	groups, err := d.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	for _, g := range groups {
		for _, target := range g.Targets {
			labels := map[string]string{}
			for name, value := range g.Labels {
				if !model.LegacyValidation.IsValidLabelName(string(name)) || !value.IsValid() {
					return nil, fmt.Errorf("the label %q=%q is not valid", name, value)
				}
				labels[string(name)] = string(value)
			}
			found[string(target[model.AddressLabel])] = labels
		}
	}
	return found, nil
}

// web has two members with static addresses: one with IPv4 and IPv6, whose second adapter uses DHCP.
func web(s *v1alpha1.VmGroupSpec) {
	s.Networks = []v1alpha1.Network{
		{Network: "DC0_DVPG0", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24}},
		{Network: "DC0_DVPG1"},
	}
}

func TestPrometheusReadsTheTargets(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]bool{"unlocked": false, "locked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, locked)
			s.up(t, "web", 2, web)
			settings := fmt.Sprintf("url: %s/sd?port=9100&namespace=%s\nrefresh_interval: 30s\n", s.url, namespace)
			keys := ""
			if locked {
				keys = fmt.Sprintf("authorization: {credentials_file: %s}\ntls_config: {ca_file: %s}\n", s.token, s.authority)
			}
			found, err := discover(t, settings+keys)
			must.Succeed(t, err)
			if addresses := slices.Sorted(maps.Keys(found)); !slices.Equal(addresses, []string{"10.0.0.10:9100", "10.0.0.11:9100"}) {
				t.Fatalf("targets: %v; want %v", addresses, []string{"10.0.0.10:9100", "10.0.0.11:9100"})
			}
			for name, want := range map[string]string{"namespace": namespace, "group": "web", "member": "web-1", "ordinal": "1", "power_state": "poweredOn", "ipv4": "10.0.0.11"} {
				if got := found["10.0.0.11:9100"]["__meta_vmgroup_"+name]; got != want {
					t.Errorf("web-1's label %s is %q; want %q", name, got, want)
				}
			}
			if locked {
				for what, keys := range map[string]string{"no token": fmt.Sprintf("tls_config: {ca_file: %s}\n", s.authority),
					"another token": strings.ReplaceAll(keys, s.token, s.wrong), "no authority": fmt.Sprintf("authorization: {credentials_file: %s}\n", s.token)} {
					if found, err := discover(t, settings+keys); err == nil {
						t.Errorf("with %s: targets %v", what, found)
					}
				}
				return
			}
			s.Down()
			for began := time.Now(); err == nil; time.Sleep(100 * time.Millisecond) {
				if found, err = discover(t, settings); time.Since(began) > timeout {
					t.Fatalf("vCenter is down, but Prometheus would use %v", found)
				}
			}
		})
	}
}

func TestPrometheusRefusesAMalformedAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.up(t, "web", 1, web)
	bend := func(*http.Response, []byte) []byte { return nil }
	bent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get(s.url + r.URL.String())
		if err != nil {
			panic(err)
		}
		defer answer.Body.Close() //nolint:errcheck // the body was only read
		text, _ := io.ReadAll(answer.Body)
		text = bend(answer, text)
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		_, _ = w.Write(text)
	}))
	defer bent.Close()
	for what, change := range map[string]func(*http.Response, []byte) []byte{
		"":               func(_ *http.Response, text []byte) []byte { return text },
		"a content type": func(r *http.Response, text []byte) []byte { r.Header.Set("Content-Type", "text/plain"); return text },
		"a number as a label": func(_ *http.Response, text []byte) []byte {
			return bytes.Replace(text, []byte(`ordinal":"0"`), []byte(`ordinal":0`), 1)
		},
		"targets in an object": func(_ *http.Response, text []byte) []byte { return []byte(`{"targets":` + string(text) + `}`) },
		"a null target":        func(*http.Response, []byte) []byte { return []byte("[null]") },
	} {
		bend = change
		if found, err := discover(t, "url: "+bent.URL+"/sd\n"); (err == nil) != (what == "") {
			t.Errorf("planted: %q: %v, %v", what, found, err)
		}
	}
}
