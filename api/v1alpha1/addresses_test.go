package v1alpha1

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestRangesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		first, last string
		size        int
	}{
		"10.0.0.7":                {"10.0.0.7", "10.0.0.7", 1},
		" 10.0.0.7 - 10.0.0.9 ":   {"10.0.0.7", "10.0.0.9", 3},
		"10.0.0.250-10.0.1.5":     {"10.0.0.250", "10.0.1.5", 12},
		"0.0.0.0-255.255.255.255": {"0.0.0.0", "255.255.255.255", math.MaxInt32},
		"2001:DB8::ffff-2001:db8::1:0": {
			"2001:db8::ffff", "2001:db8::1:0", 2},
		"2001:db8::-2001:db8::7fff:fffd": {"2001:db8::", "2001:db8::7fff:fffd", math.MaxInt32 - 1},
		"2001:db8::-2001:db8::7fff:fffe": {"2001:db8::", "2001:db8::7fff:fffe", math.MaxInt32},
		"::-ffff::":                      {"::", "ffff::", math.MaxInt32},
	} {
		r, err := ParseRange(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if r.First.String() != want.first || r.Last.String() != want.last || r.Size() != want.size {
			t.Errorf("%s is %s to %s, %d addresses", text, r.First, r.Last, r.Size())
		}
	}
}

func TestTheErrorOfAnInvalidRangeShowsTheFormat(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                       "must be an address, such as 10.0.0.7",
		"10.0.0.0/24":            "must be an address, such as 10.0.0.7",
		"10.0.0.007":             "must be an address, such as 10.0.0.7",
		"10.0.0.7-9":             "or a range of addresses, such as 10.0.0.10-10.0.0.59",
		"10.0.0.7-":              "or a range of addresses",
		"1.1.1.1-1.1.1.2-1.1.1.": "or a range of addresses",
		"fe80::1%eth0":           "must be an address",
		"::ffff:10.0.0.7":        "must be an address",
		"10.0.0.7-2001:db8::7":   "within one family",
		"10.0.0.9-10.0.0.7":      "first address is not above its last",
	} {
		if _, err := ParseRange(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error and %q in the text", text, err, says)
		}
	}
}

func TestAddressesAreCountedAndFoundByOrdinal(t *testing.T) {
	t.Parallel()
	a := &Addresses{Ranges: []string{"10.0.0.254-10.0.1.1", "10.0.0.7", "nonsense", "10.0.0.9-10.0.0.10"}}
	if n := a.Count(); n != 7 {
		t.Errorf("%d addresses; want 7", n)
	}
	for n, want := range []string{"10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1", "10.0.0.7", "10.0.0.9", "10.0.0.10"} {
		if got, ok := a.At(n); !ok || len(got) != 1 || got[0].String() != want {
			t.Errorf("number %d is %s (%v), want %s", n, got, ok, want)
		}
	}
	for _, n := range []int{-1, 7, math.MaxInt32} {
		if got, ok := a.At(n); ok {
			t.Errorf("number %d exists: %s", n, got)
		}
	}
	vast := &Addresses{Ranges: []string{"2001:db8::-2001:db8::ffff:ffff", "2001:db8:1::-2001:db8:1::ffff:ffff"}}
	if n := vast.Count(); n != math.MaxInt32 {
		t.Errorf("%d addresses; want %d", n, math.MaxInt32)
	}
	if got, ok := vast.At(70000); !ok || got[0].String() != "2001:db8::1:1170" {
		t.Errorf("number 70000 is %s (%v)", got, ok)
	}
}

func TestEachAdditionalRangeGivesAMemberOneMoreAddress(t *testing.T) {
	t.Parallel()
	a := &Addresses{Ranges: []string{"10.0.0.10-10.0.0.12", "10.0.0.40"}, AdditionalRanges: []string{"10.0.0.110-10.0.0.119", "10.0.0.210-10.0.0.212"}}
	if n := a.Count(); n != 3 {
		t.Errorf("there are addresses for %d members; want 3", n)
	}
	if got, ok := a.At(2); !ok || fmt.Sprint(got) != "[10.0.0.12 10.0.0.112 10.0.0.212]" {
		t.Errorf("number 2 is %s (%t)", got, ok)
	}
	if got, ok := a.At(3); ok {
		t.Errorf("number 3 is %s", got)
	}
}

func TestDHCPIsForAdaptersWithoutAddresses(t *testing.T) {
	t.Parallel()
	some := &Addresses{Ranges: []string{"10.0.0.7"}, PrefixLength: 24}
	for _, c := range []struct {
		n             Network
		dhcp, address bool
	}{
		{Network{}, true, true},
		{Network{IPv4: some}, false, true},
		{Network{IPv6: some}, false, true},
		{Network{IPv6: some, DHCP: new(true)}, true, true},
		{Network{DHCP: new(false)}, false, false},
		{Network{IPv6: some, DHCP: new(false)}, false, true},
	} {
		if dhcp, address := c.n.WantsDHCP(), c.n.WantsAddress(); dhcp != c.dhcp || address != c.address {
			t.Errorf("%+v: %t, %t; want %t and %t", c.n, dhcp, address, c.dhcp, c.address)
		}
	}
}

// ParseRange and At agree on any text.
func FuzzRanges(f *testing.F) {
	for _, text := range []string{"10.0.0.7", "10.0.0.7-10.0.0.9", "2001:db8::-2001:db8::ffff", "::ffff:10.0.0.7", "fe80::1%eth0", "-", ""} {
		f.Add(text, uint16(3))
	}
	f.Fuzz(func(t *testing.T, text string, n uint16) {
		r, err := ParseRange(text)
		a := &Addresses{Ranges: []string{text}}
		if err != nil {
			if a.Count() != 0 {
				t.Errorf("%q: %v, and %d addresses; want 0", text, err, a.Count())
			}
			return
		}
		got, ok := a.At(int(n))
		if ok != (int(n) < r.Size()) || ok && (got[0].Less(r.First) || r.Last.Less(got[0])) {
			t.Errorf("%q has %d addresses; number %d is %s (%v)", text, r.Size(), n, got, ok)
		}
	})
}
