package judges

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// hosts returns the addresses, by host name, that ansible-inventory reads for a group. A warning of ansible-inventory is an error.
func (d debian) hosts(t *testing.T, inventory, group string) (map[string]string, error) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(d.root, "tmp", "inventory.yaml"), []byte(inventory), 0o644))
	out, said, err := d.run(t, nil, "", "/usr/bin/ansible-inventory", "-i", "/tmp/inventory.yaml", "--list")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	if strings.Contains(said, "WARNING") {
		return nil, fmt.Errorf("ansible-inventory warns: %s", said)
	}
	var list map[string]json.RawMessage
	must.Succeed(t, json.Unmarshal([]byte(out), &list))
	var members struct{ Hosts []string }
	if list[group] == nil {
		return nil, fmt.Errorf("the inventory has no group %s: %s", group, out)
	}
	must.Succeed(t, json.Unmarshal(list[group], &members))
	var meta struct{ Hostvars map[string]map[string]any }
	must.Succeed(t, json.Unmarshal(list["_meta"], &meta))
	found := map[string]string{}
	for _, host := range members.Hosts {
		found[host] = fmt.Sprint(meta.Hostvars[host]["ansible_host"])
	}
	return found, nil
}

func TestAnsibleReadsTheInventory(t *testing.T) {
	all := debians(t)
	s := newSite(t, false)
	inventories := map[string]string{}
	for _, name := range []string{"web-servers", "2026-11", "null"} {
		inventories[name] = inventory(t, s.up(t, name, 2, web))
	}
	inventories["empty"] = inventory(t, s.up(t, "empty", 0, nil))
	groups := map[string]string{"web-servers": "web_servers", "2026-11": "_2026_11", "null": "null"}
	for _, d := range all {
		for name, group := range groups {
			found, err := d.hosts(t, inventories[name], group)
			if err != nil || len(found) != 2 || found[name+"-0"] != "10.0.0.10" || found[name+"-1"] != "10.0.0.11" {
				t.Errorf("Debian %s finds %v in %s: %v", d.release, found, inventories[name], err)
			}
		}
		for what, bent := range map[string]string{
			"hosts as a list": strings.NewReplacer(`    "web-servers-`, `    - "web-servers-`).Replace(inventories["web-servers"]),
			"a '-' in a name": strings.ReplaceAll(inventories["web-servers"], "web_servers", "web-servers"),
			"invalid YAML":    inventories["web-servers"] + "\t:",
		} {
			if found, err := d.hosts(t, bent, "web_servers"); err == nil {
				t.Errorf("planted: %s: Debian %s finds %v", what, d.release, found)
			}
		}
	}
}
