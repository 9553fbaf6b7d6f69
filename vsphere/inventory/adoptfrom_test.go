package inventory

import (
	"strings"
	"testing"
)

func TestAnAdoptRuleIsANamespaceAndTheFullPathOfAFolder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]AdoptRule{
		"shop=/DC0/vm/legacy": {"shop", "/DC0/vm/legacy"},
		"*=/DC0/vm/a b/c=d/":  {"*", "/DC0/vm/a b/c=d/"},
	} {
		if got, err := ParseAdoptRule(text); err != nil || got != want {
			t.Errorf("%q gives %+v, %v; want no error and %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"":                    "not a rule",
		"/DC0/vm/legacy":      "not a rule",
		"=/DC0/vm/legacy":     "namespace",
		"team-*=/DC0/vm":      "namespace",
		"a/b=/DC0/vm":         "namespace",
		"shop=":               "inventory path",
		"shop=/":              "inventory path",
		"shop=DC0/vm/legacy":  "inventory path",
		"shop=/DC0//legacy":   "inventory path",
		"shop=/DC0/vm/../etc": "inventory path",
		"shop=/DC0/./vm":      "inventory path",
	} {
		if got, err := ParseAdoptRule(text); err == nil || got != (AdoptRule{}) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %+v, %v; want an error, %+v and %q in the text", text, got, err, AdoptRule{}, says)
		}
	}
	if err := validateAdoptRules([]AdoptRule{{"shop", "legacy"}}); err == nil || !strings.Contains(err.Error(), "--adopt-from") {
		t.Errorf("got the error %v for a rule whose folder is not a path; want one that names --adopt-from", err)
	}
}

func TestAFolderIsDistinguishedFromThoseThatShareItsPrefix(t *testing.T) {
	t.Parallel()
	a := newAdoptFolders([]AdoptRule{{"shop", "/DC0/vm/a%2fb"}})
	for place, may := range map[string]bool{
		"DC0 vm a/b": true, "DC0 vm a/b c": true, "DC0 vm a/bc": false, "DC0 vm": false, "": false, "vm a/b": false,
	} {
		if a.Allow("shop", strings.Fields(place)) != may {
			t.Errorf("%q: %v", place, !may)
		}
	}
}
