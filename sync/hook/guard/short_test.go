package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestATokenOfSixteenBytesIsTooShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, good := range map[string]bool{"0123456789abcdef": false, "0123456789abcdef\n": false, "0123456789abcdef0": true} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(Config{TokenFiles: []string{path}, Log: zerolog.Nop()})
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "at least 17") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
