package inventory

import (
	"k8s.io/apimachinery/pkg/types"
)

// changes is what a publication changed.
type changes struct {
	groups map[types.UID]bool // may have other members now: rebuild finds out
	fire   map[types.UID]bool // changed for certain
	tree   bool               // the answers about templates and adoption may have changed
	places bool               // places were added, removed or changed
}
