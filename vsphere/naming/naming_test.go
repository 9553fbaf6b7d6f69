package naming

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func object(kind, id, path, switched string) Candidate {
	return Candidate{Path: path, Switched: switched, Ref: types.ManagedObjectReference{Type: kind, Value: id}}
}

func TestAnObjectIsNamedByNamePathSwitchTypeOrMoRef(t *testing.T) {
	all := []Candidate{
		object("Network", "network-1", "/DC0/network/web", ""),
		object("DistributedVirtualPortgroup", "dvportgroup-2", "/DC0/network/web", "/DC0/network/DVS0/web"),
		object("OpaqueNetwork", "network-o3", "/DC0/network/web", ""),
		object("Network", "network-4", "/DC0/network/a%2fb", ""),
		object("Network", "network-5", "/DC0/network/a/b", ""),
		object("Network", "network-6", "/DC0/network/network-1", ""),
		object("Network", "network-7", "/DC0/network/Network:web", ""),
	}
	for name, want := range map[string][]int{
		"web":                           {0, 1, 2},
		"/DC0/network/web":              {0, 1, 2},
		"DVS0/web":                      {1},
		"Network:web":                   {6}, // a name as it is comes before a type and a name
		"Network:/DC0/network/web":      {0},
		"OpaqueNetwork:web":             {2},
		"OpaqueNetwork:network/web":     {2},
		"OpaqueNetwork:network-o3":      {2},
		"Network:network-1":             {0}, // a moRef comes before a type and a name
		"network-1":                     {5}, // and a moRef without a type is none
		"network-4":                     nil,
		"OpaqueNetwork:network-1":       nil,
		"OpaqueNetwork:":                nil,
		"a/b":                           {3, 4},
		"a%2fb":                         {3},
		"/DC0/network/a/b":              {4},
		"/DC0/network/a%2fb":            {3},
		"":                              {0, 1, 2, 3, 4, 5, 6},
		"VirtualMachine:web":            nil,
		"Network:/DC0/network/network-": nil,
	} {
		if got := Matching(name, all); !slices.Equal(got, want) {
			t.Errorf("%q names the objects at %v; want %v", name, got, want)
		}
	}
}

// names are names that are hard to tell apart: they contain what separates names in paths and types from names, or look like moRefs.
var names = []string{"a", "b", "a%2fb", "Network:a", "network-1", "Network:network-2", "%2f", strings.Repeat("long ", 16)}

func TestEachTextOfAMessageNamesOneObject(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	setting := Setting{Word: "network", Flag: "spec.networks", Missing: vcfault.ReasonNetworkNotFound, Ambiguous: vcfault.ReasonNetworkAmbiguous}
	for range 2000 {
		var all []Candidate
		for i := range 1 + rng.IntN(9) {
			dir := "/DC0/network"
			for range rng.IntN(5) {
				dir += "/" + names[rng.IntN(len(names))]
			}
			name, switched := names[rng.IntN(len(names))], ""
			kind := []string{"Network", "OpaqueNetwork", "DistributedVirtualPortgroup"}[rng.IntN(3)]
			if kind == "DistributedVirtualPortgroup" && rng.IntN(3) > 0 {
				switched = fmt.Sprintf("%s/DVS%d/%s", dir, rng.IntN(2), name)
			}
			all = append(all, object(kind, fmt.Sprintf("network-%d", i), dir+"/"+name, switched))
		}
		name := []string{"", "none", all[0].Path, Last(all[0].Path)}[rng.IntN(4)]
		fits := Matching(name, all)
		offered := fits
		if len(fits) == 0 {
			for i := range all {
				offered = append(offered, i)
			}
		}
		var named []int
		_, listed, _ := strings.Cut(setting.Refuse(name, all, fits).Message, "to one of ")
		for _, text := range strings.Split(strings.TrimSuffix(listed, "."), ", ") {
			i, err := setting.Choose(text, all)
			if err != nil {
				t.Fatalf("%v\nlists %q, and then: %v", setting.Refuse(name, all, fits), text, err)
			}
			named = append(named, i)
		}
		if slices.Sort(named); !slices.Equal(named, offered) {
			t.Fatalf("%v\nnames the objects at %v; want %v", setting.Refuse(name, all, fits), named, offered)
		}
	}
}
