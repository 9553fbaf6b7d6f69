package hook_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

func TestMain(m *testing.M) { thin.Main(m) }
