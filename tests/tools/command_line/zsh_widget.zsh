# For zsh_offers.zsh: binds Tab to a widget that completes, notes the offers in a file `offered`, and then writes the line
# to a file `completed`.
fpath=($PWD $fpath)
autoload -Uz compinit
compinit -C -u -d ./.completions  # the shells of a folder read what the first one found
# Every offer goes through compadd. With -A it writes the words that match to an array.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a words_offered
  builtin compadd -A words_offered "$@"
  print -rl -- $words_offered >> offered
  builtin compadd "$@"
}
zle -C complete_word complete-word _main_complete
complete_and_tell() {
  zle complete_word
  print -r -- $BUFFER > being_completed
  mv being_completed completed
}
zle -N complete_and_tell
bindkey '^I' complete_and_tell
