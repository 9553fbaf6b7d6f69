package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Change is how one field of a spec differs from that of an earlier spec.
type Change struct {
	// Field is its path, "spec.memory" or "spec.disks[data].sizeGiB".
	Field string `json:"field"`
	// From and To are the values, as in a manifest; empty if the field isn't set.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// String describes the change with the field's unit, if the field's name doesn't have it.
func (c Change) String() string {
	unit := ""
	if c.Field == "spec.memory" {
		unit = " GiB"
	}
	value := func(text string) string {
		if text == "" {
			return "not set"
		}
		return text + unit
	}
	return fmt.Sprintf("%s: %s instead of %s", c.Field, value(c.To), value(c.From))
}

// valueMost bounds a value of a Change, in bytes.
const valueMost = 120

// Changes returns how a spec differs from an earlier one, ordered by field. A field that is not set counts as its default, because a manifest often
// lacks what the API server adds.
func Changes(from, to *v1alpha1.VmGroupSpec) (all []Change) {
	before, after := fieldsOf(from), fieldsOf(to)
	fields := make([]string, 0, len(before)+len(after))
	for _, values := range []map[string]string{before, after} {
		for field := range values {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	for _, field := range slices.Compact(fields) {
		was, is := before[field], after[field]
		usual := Defaults[field[strings.LastIndexByte(field, '.')+1:]]
		if cmp.Or(was, usual) != cmp.Or(is, usual) {
			all = append(all, Change{Field: field, From: Bounded(was, valueMost), To: Bounded(is, valueMost)})
		}
	}
	return all
}

// Defaults are the values of fields that the API server sets, by the fields' names.
var Defaults = map[string]string{
	"replicas": "1", "inventory": "ConfigMap", "provisioning": "Thin", "whenDeleted": "Retain", "whenScaled": "Retain", "mode": "Full",
	"rule": "Preferred", "antiAffinity": "None", "key": "user-data", "check": "PoweredOn", "timeoutSeconds": "600", "strategy": "RollingUpdate",
	"resize": "Auto", "maxSurge": v1alpha1.DefaultMaxSurge, "maxUnavailable": v1alpha1.DefaultMaxUnavailable, "progressDeadlineSeconds": "1800",
	"onTemplateChange": "Ignore", "action": "RestartThenReplace", "maxUnhealthy": v1alpha1.DefaultMaxUnhealthy, "maxConcurrent": v1alpha1.DefaultMaxConcurrent,
	"order": "HighestOrdinal", "policy": "Delete", "shutdownTimeoutSeconds": "60", "type": "Headless", "protocol": "TCP", "timeZone": "UTC",
	"path": "/", "scheme": "HTTP", "periodSeconds": "10", "probeTimeoutSeconds": "1", "successThreshold": "1", "failureThreshold": "3",
}

// fieldsOf returns the values of a spec by path.
func fieldsOf(spec *v1alpha1.VmGroupSpec) map[string]string {
	var tree any
	_ = json.Unmarshal([]byte(jsonOf(spec)), &tree) // cannot fail: it was marshaled
	all := map[string]string{}
	flatten("spec", tree, all)
	return all
}

// flatten adds the leaves of a tree. A list of objects is a branch, whose elements are known by their names, if they have some.
func flatten(at string, tree any, all map[string]string) {
	switch t := tree.(type) {
	case map[string]any:
		for name, value := range t {
			flatten(at+"."+name, value, all)
		}
	case []any:
		if len(t) == 0 {
			return
		}
		if _, objects := t[0].(map[string]any); !objects {
			all[at] = jsonOf(t)
			return
		}
		taken := map[string]bool{}
		for i, element := range t {
			of, _ := element.(map[string]any)
			name, _ := of["name"].(string)
			network, _ := of["network"].(string)
			if name = cmp.Or(name, network); name == "" || taken[name] {
				name = fmt.Sprint(i)
			}
			taken[name] = true
			flatten(at+"["+name+"]", element, all)
		}
	case string:
		all[at] = t
	default:
		all[at] = jsonOf(t)
	}
}
